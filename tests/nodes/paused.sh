#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that is frozen is dead to others, and lives again when it goes on; the others were never dead to it.

. "${SRC:?}/tests/nodes/nodes.bash"

host=$(uname -n)
node_ok 1
node_ok 2
wait_until 30 sees 1 "$host-2" live
wait_until 30 sees 2 "$host" live
frozen=$(daemon_pid "$(mnt 2)")
on_exit kill -CONT "$frozen"
kill -STOP "$frozen"
wait_until 30 sees 1 "$host-2" dead
kill -CONT "$frozen"
assert_eq "$(sees 2 "$host" dead; echo $?)" 1 "is the other dead to who was frozen"
wait_until 30 sees 1 "$host-2" live
wait_until 30 sees 2 "$host" live
umount_ckptfs "$(mnt 1)"
umount_ckptfs "$(mnt 2)"
