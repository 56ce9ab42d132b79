#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount that cannot make a lease works alone, and says so; a read-only one, too.

. "${SRC:?}/tests/nodes/nodes.bash"

node_ok 1 ro
assert_eq "$(coord 1 'x["state"], x["why"], x["others"]')" "alone it is read-only []"
assert_contains "$("$CKPTFS" status "$(mnt 1)")" "coord        dir, alone: it is read-only"
umount_ckptfs "$(mnt 1)"

expect_ok "$CKPTFS" init "$BACK"
rmdir "$BACK/.ckptfs/nodes"
node_ok 2
assert_contains "$OUT" "no lease can be made in $BACK/.ckptfs/nodes: No such file or directory. This mount works alone"
assert_eq "$(coord 2 'x["state"], x["lease"]')" "alone alone"
echo data >"$(mnt 2)/file"
assert_eq "$(cat "$BACK/file")" data
umount_ckptfs "$(mnt 2)"
