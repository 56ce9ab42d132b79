#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A mount with coord=etcd: has its lease and its records there; checkpoints are committed; the backing remembers that
# its nodes agree so, and whoever would agree otherwise is refused.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"
. "$SRC/tests/cli/verbs.sh"
. "$SRC/tests/cluster/etcd.bash"

needs_fuse
start_etcd
mount_ckptfs -o "coord=etcd:$ETCD_URL,quiet_s=1"
assert_eq "$(status_of 'x["coord"]["backend"] + " " + x["coord"]["state"]')" "etcd safe"
assert_contains "$(etcd_keys)" nodes/
program <<'END'
from checkpoints import *

content = make(mnt + "/step-1")
is_whole("step-1", content)
END
expect_ok "$CKPTFS" verify "$BACK/step-1"
assert_eq "$(find "$BACK/.ckptfs/txn" "$BACK/.ckptfs/nodes" -type f)" "" "records on the backing"
umount_ckptfs
assert_eq "$(etcd_keys)" "" "what is left in etcd"

mkdir -p "$TEST_TMP/mnt"
for way in "" "coord=dir,"; do
	expect_fail "$CKPTFS" mount -o "${way}host_cache_size=64M" "$BACK" "$MNT"
	assert_contains "$OUT" "agree by: etcd cluster "
	assert_contains "$OUT" "and not by: dir"
done
expect_fail "$CKPTFS" fsck "$BACK"
assert_contains "$OUT" "and not by: dir"
expect_ok "$CKPTFS" fsck -o "coord=etcd:$ETCD_URL" "$BACK"
mount_ckptfs -o "coord=etcd:$ETCD_URL"
umount_ckptfs

# Another etcd is another cluster.
cluster=$(cat "$BACK/.ckptfs/coord.json")
stop_etcd
rm -rf "$TEST_TMP/.etcd"
start_etcd --initial-cluster-token another
expect_fail "$CKPTFS" mount -o "coord=etcd:$ETCD_URL" "$BACK" "$MNT"
assert_contains "$OUT" "agree by: etcd cluster "
assert_contains "$OUT" "and not by: etcd cluster "
assert_eq "$(cat "$BACK/.ckptfs/coord.json")" "$cluster"

echo '{"coord": "etcd"}' >"$BACK/.ckptfs/coord.json"
expect_fail "$CKPTFS" mount -o "coord=etcd:$ETCD_URL" "$BACK" "$MNT"
assert_contains "$OUT" "coord.json, which says how nodes agree, cannot be used: it names no cluster"
rm "$BACK/.ckptfs/coord.json"
mount_ckptfs
umount_ckptfs
