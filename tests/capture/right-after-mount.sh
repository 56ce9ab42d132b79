#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A session that begins right after the mount, before the cache has been faulted in, is lent all of its share, as are those after it.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
cat >"$TEST_TMP/trainer.py" <<'END'
import sys
from capture import *
print("ready", flush=True)
sys.stdin.readline()
s = Session()
assert s.slot * s.slots == 240 * MB, (s.slot, s.slots)
print("lent", flush=True)
END
coproc TRAINER { MNT=$TEST_TMP/mnt BACK=$TEST_TMP/back "$PYTHON" -u "$TEST_TMP/trainer.py" 2>&1; }
read -r said <&"${TRAINER[0]}"
[ "$said" = ready ] || die "$said"
mount_ckptfs -o host_cache_size=512M
echo >&"${TRAINER[1]}"
said=$(cat <&"${TRAINER[0]}")
[ "$said" = lent ] || die "$said"
umount_ckptfs
