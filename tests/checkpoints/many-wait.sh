#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# More programs than a node has ranks wait for the commit of a checkpoint that they are going to change: nobody else has
# to wait for them.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o flush_bw=$((2000000 / ${TEST_SLOW:-1})),host_cache_size=64M
program <<'END'
from checkpoints import *

content = begin(mnt + "/step-1", files=2, size=8 * MB)
end(mnt + "/step-1", content)
held = lambda: any(p["path"] == "step-1" for p in status()["pending"])
assert held()
def append(name):
	fd = os.open(mnt + "/step-1/" + name, os.O_WRONLY | os.O_APPEND)
	os.write(fd, b"+")
	os.close(fd)

files = sorted(name for name in content if name != ".metadata")
writers = [child(lambda i=i: append(files[i % 2])) for i in range(64)]
wait(lambda: status()["requests"]["in_flight"] >= 64)
os.mkdir(mnt + "/elsewhere")
save(mnt + "/elsewhere/notes", b"notes")
assert read(mnt + "/elsewhere/notes") == b"notes" and "step-1" in names()
assert held(), "too quick to tell"
assert [reap(pid) for pid in writers] == [0] * 64
content.update((name, content[name] + 32 * b"+") for name in files)
assert ckptfs("commit", mnt + "/step-1")[0] == 0
wait_for(mnt + "/step-1")
is_whole("step-1", content)
END
umount_ckptfs
