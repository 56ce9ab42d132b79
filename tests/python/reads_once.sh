#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
# Ranks of a node that load slices of a checkpoint, some of them replicas of others, read each byte of it once from the storage,
# and none of what they do not want: by ckptfs.load and by DCP.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
PYTHON=$BUILD/frameworks/venv/bin/python
"$PYTHON" -c 'import torch' 2>/dev/null || skip "no torch in $BUILD/frameworks"
loop_fs ext4 600 "$TEST_TMP/disk"
WANTED=$((96 << 20))

cat >"$TEST_TMP/ranks.py" <<'END'
import os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import checkpoint
import ckptfs

def state():
	return {"layers.%d.w" % n: torch.full((2048, 4096), float(n)) for n in range(3)}

def run(rank, way, unit):
	os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE="4")
	dist.init_process_group("gloo", rank=rank, world_size=4, init_method="file://" + os.environ["TEST_TMP"] + "/meet-" + way)
	if way == "slices":
		found = ckptfs.load(unit, layout="columns", tp=2)
		assert all(one.shape == (2048, 2048) and (one == n).all() for n, one in enumerate(found.values()))
	else:
		found = state()
		for one in found.values():
			one.zero_()
		checkpoint.load(found, storage_reader=ckptfs.dcp.Reader(unit))
		assert all((one == n).all() for n, one in enumerate(found.values()))
	dist.destroy_process_group()

if __name__ == "__main__":
	unit = sys.argv[2]
	if sys.argv[1] == "save":
		checkpoint.save(dict(state(), optim={"exp_avg": torch.randn(24 << 20)}), checkpoint_id=unit)
	else:
		mp.spawn(run, sys.argv[1:], nprocs=4)
END

# Sectors of 512 bytes.
nr_read() { awk '{ print $3 }' "/sys/block/${LOOP_DEV##*/}/stat"; }

# ranks WAY: in a mount over a disk of which nothing is in memory.
ranks() {
	local before
	umount "$TEST_TMP/disk" && mount "$LOOP_DEV" "$TEST_TMP/disk" || die "cannot mount the disk again"
	mount_ckptfs "$TEST_TMP/disk/back"
	before=$(nr_read)
	expect_ok "$PYTHON" "$TEST_TMP/ranks.py" "$1" "$MNT/step-1"
	READ=$((($(nr_read) - before) * 512))
	umount_ckptfs
}

mount_ckptfs "$TEST_TMP/disk/back"
echo '{"tensors": [{"match": "*", "tp": 1}]}' >"$MNT/columns.json"
expect_ok "$PYTHON" "$TEST_TMP/ranks.py" save "$MNT/step-1"
expect_ok "$CKPTFS" wait "$MNT/step-1"
umount_ckptfs
for way in slices dcp; do
	ranks $way
	echo "$way: $READ bytes read of the disk, $WANTED wanted by four ranks"
	[ "$READ" -ge "$WANTED" ] || die "the disk was not read: the test shows nothing"
	[ "$READ" -le $((WANTED + WANTED / 10)) ] || die "$way: $READ bytes were read"
done
