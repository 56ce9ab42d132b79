#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An ordinary directory that becomes a checkpoint, by a file that shows it, takes along what is in it: also an empty
# directory that a rank has made there, of which nothing told yet what it would be.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

out = mnt + "/out"
os.mkdir(out)
save(out + "/notes.txt", b"notes")
os.mkdir(out + "/deep")
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1000")
code = """
import os
os.mkdir('sub')
os.mkdir('deep/sub')
open('__0_0.distcp', 'w').close()
open('sub/late.txt', 'w').close()
open('.metadata.tmp', 'w').close()
os.rename('.metadata.tmp', '.metadata')
"""
subprocess.run([sys.executable, "-c", code], cwd=out, check=True)
wait_for(out)
is_whole("out", {"notes.txt": b"notes", "deep": None, "deep/sub": None, "sub": None, "sub/late.txt": b"",
	"__0_0.distcp": b"", ".metadata": b""})
END
umount_ckptfs
