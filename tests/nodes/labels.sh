#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A label that is given is refused while a mount of another host that lives has it, and free when that one died.
# timeout: 120
# needs: root

. "${SRC:?}/tests/nodes/nodes.bash"

needs unshare
[ "$TEST_PRIVATE" = 1 ] || skip "no namespaces of its own"
mkdir -p "$(mnt far)" "$TEST_TMP/run-far"
CKPTFS_RUN_DIR=$TEST_TMP/run-far on_another_host far "$CKPTFS" mount -f \
	-o "host_cache_size=64M,lease_s=$LEASE_S,node=gpu7" "$BACK" "$(mnt far)" &
far=$!
wait_until 30 has_leases 1
node near node=gpu7
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "the node label 'gpu7' is in use by a live mount on host far. Nothing was mounted"
assert_eq "$(leases)" 1
node_ok near node=gpu8
wait_until 30 sees near gpu7 live
umount_ckptfs "$(mnt near)"
wait_until 30 has_leases 1
kill -9 "$far"
node_ok near node=gpu7
assert_contains "$OUT" "node 'gpu7' of host far, with which this mount cannot work together, has left a lease"
wait_until 60 has_leases 1 # once that has been dead for long
umount_ckptfs "$(mnt near)"
