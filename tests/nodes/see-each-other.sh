#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two mounts of one backing see that the other lives, that one was unmounted, and that one was killed, and who comes
# after that one on its host takes its lease away.

. "${SRC:?}/tests/nodes/nodes.bash"

host=$(uname -n)
node_ok 1
node_ok 2
assert_eq "$(coord 1 'x["backend"], x["state"], x["lease"]')" "dir safe held"
wait_until 30 sees 1 "$host-2" live
wait_until 30 sees 2 "$host" live
assert_contains "$("$CKPTFS" status "$(mnt 1)")" "coord        dir, safe"
assert_contains "$("$CKPTFS" status "$(mnt 1)")" "live     node $host-2 of host $host"

umount_ckptfs "$(mnt 2)"
wait_until 30 has_leases 1
wait_until 30 sees 1 "$host-2" dead

node_ok 3
wait_until 30 sees 1 "$host-2" live
kill -9 "$(daemon_pid "$(mnt 3)")"
wait_until 30 sees 1 "$host-2" dead
expect_ok "$CKPTFS" umount --force "$(mnt 3)"
assert_eq "$(leases)" 2
node_ok 4
wait_until 30 has_leases 2
wait_until 30 sees 1 "$host-2" live
umount_ckptfs "$(mnt 1)"
umount_ckptfs "$(mnt 4)"
wait_until 30 has_leases 0
