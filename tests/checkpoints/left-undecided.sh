#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory of a checkpoint's name, in which there are only files that do not tell what it is when the mount ends, is left
# and named, as any checkpoint without an end; what its name had before is there again.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *
import shutil

make(mnt + "/step-1")
shutil.rmtree(mnt + "/step-1")
os.mkdir(mnt + "/step-1")
save(mnt + "/step-1/notes.txt", b"notes") # what it replaces is kept
os.mkdir(mnt + "/step-2")
save(mnt + "/step-2/.tmpAb12cD", b"notes") # may get another name
os.mkdir(mnt + "/step-3")
assert "step-1" in pending() and "step-2" in pending(), pending()
END
run "$CKPTFS" umount "$MNT"
assert_eq "$RC" 1 "exit status of umount"
assert_contains "$OUT" "'step-1' was not committed"
assert_contains "$OUT" "'step-2' was not committed"
[[ $OUT != *step-3* ]] || die "nothing is in step-3: $OUT"
assert_eq "$(cat "$BACK"/.ckptfs-*/notes.txt "$BACK"/.ckptfs-*/.tmpAb12cD)" notesnotes
assert_eq "$(ls "$BACK")" step-1
expect_ok "$CKPTFS" verify "$BACK/step-1"
