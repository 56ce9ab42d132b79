#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commit file tells the path of its checkpoint below the backing, byte for byte. (When the
# kernel has forgotten the directories above it: tests/unit/checkpoint_crash.c. Its caches are other tests', too.)

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

def told(path):
	header = json.loads(read(os.fsencode(back) + b"/" + path + b"/.ckptfs-commit.json"))
	return os.fsencode(header["unit"]) if "unit" in header else bytes.fromhex(header["unit_hex"])

for parent in b"a/b/c", b"line\nfeed", b"not \xff UTF-8":
	unit = os.fsencode(mnt) + b"/" + parent + b"/step-1"
	os.makedirs(os.path.dirname(unit))
	assert reap(child(lambda: (os.mkdir(unit), save(unit + b"/__0_0.distcp", b"x")))) == 0
	wait(lambda: not pending())
	assert told(parent + b"/step-1") == parent + b"/step-1"
END
umount_ckptfs
