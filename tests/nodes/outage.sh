#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A lease that cannot be renewed is told of, in status and log, and so is its being renewed again; no byte is at stake.

. "${SRC:?}/tests/nodes/nodes.bash"

# is_lease WHAT
is_lease() {
	[ "$(coord 1 'x["lease"]')" = "$1" ]
}

mkdir "$(mnt 1)"
"$CKPTFS" mount -f -o "host_cache_size=64M,lease_s=$LEASE_S" "$BACK" "$(mnt 1)" 2>"$TEST_TMP/log" &
wait_until 30 test -e "$(mnt 1)/.ckptfs/status.json"
wait_until 30 is_lease held
mv "$BACK/.ckptfs/nodes" "$BACK/.ckptfs/away"
wait_until 30 is_lease failing
wait_until 30 grep -q "cannot be renewed: No such file or directory" "$TEST_TMP/log"
assert_contains "$("$CKPTFS" status "$(mnt 1)")" "the lease of this node cannot be renewed"
echo data >"$(mnt 1)/file"
assert_eq "$(cat "$BACK/file")" data
mv "$BACK/.ckptfs/away" "$BACK/.ckptfs/nodes"
wait_until 30 is_lease held
wait_until 30 grep -q "is renewed again" "$TEST_TMP/log"
umount_ckptfs "$(mnt 1)"
wait
