#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A view of what was saved just now is read from the cache, not from the disk: flushed bytes are in no page of the backing.
. "$(dirname "$0")/../lib.sh"
needs_fuse
loop_fs ext4 200 "$TEST_TMP/disk"

# Sectors of 512 bytes.
nr_read() { awk '{ print $3 }' "/sys/block/${LOOP_DEV##*/}/stat"; }

mount_ckptfs "$TEST_TMP/disk/back"
expect_ok "${PY[@]}" - "$MNT/step-1" <<'END'
import json, os, struct, sys
size = 16 << 20
os.mkdir(sys.argv[1])
for n in range(2):
	header = json.dumps({"w%d" % n: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
	with open(sys.argv[1] + "/%d.safetensors" % n, "wb") as file:
		file.write(struct.pack("<Q", len(header)) + header + os.urandom(size))
END
for n in 0 1; do
	expect_ok "$CKPTFS" wait "$MNT/step-1/$n.safetensors"
done
VIEW=$MNT/step-1/.view/safetensors/model.safetensors
expect_ok ls "$VIEW"
BEFORE=$(nr_read)
expect_ok cp "$VIEW" "$TEST_TMP/first"
NR=$(($(nr_read) - BEFORE))
[ "$NR" -lt 2048 ] || die "$NR sectors were read of the disk: the cache was not used"
umount_ckptfs

# Cold, the same bytes come from the disk.
umount "$TEST_TMP/disk" && mount "$LOOP_DEV" "$TEST_TMP/disk" || die "cannot mount the disk again"
mount_ckptfs "$TEST_TMP/disk/back"
BEFORE=$(nr_read)
expect_ok cmp "$VIEW" "$TEST_TMP/first"
NR=$(($(nr_read) - BEFORE))
[ "$NR" -ge 65536 ] || die "only $NR sectors were read: the test shows nothing"
umount_ckptfs
