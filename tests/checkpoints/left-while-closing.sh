#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who unmounts the moment a job has ended, whose files the kernel is still closing, is told what was left without its end.
#
# timeout: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
for i in 1 2 3 4 5 6 7 8 9 10; do
	mount_ckptfs -o quiet_s=3600
	RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 program "$i" <<'END'
from checkpoints import *

os.mkdir(mnt + "/step-" + sys.argv[1])
save(mnt + "/step-" + sys.argv[1] + "/__0_0.distcp", b"x")
save(mnt + "/read", b"x")
keep = [open(mnt + "/read", "rb") for i in range(900)]
os._exit(0)
END
	run "$CKPTFS" umount "$MNT"
	assert_eq "$RC" 1 "exit status of umount $i"
	assert_contains "$OUT" "the checkpoint 'step-$i' was not committed, because its end had not been seen"
done
