#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A checkpoint of many files through the smallest cache that there is: files that are larger than that, several at a
# time, open together; and one for which there is no room, after which the cache is free for the next.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
loop_fs ext4 160 "$TEST_TMP/disk"
mount_ckptfs -o host_cache_size=512K,chunk_size=64K,stall_timeout_s=60,quiet_s=3600 "$TEST_TMP/disk"
program <<'END'
from checkpoints import *

def used():
	disk = os.statvfs(back)
	return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

used_before = used()
unit = mnt + "/step-1"
os.mkdir(unit)
content = {"__%d_0.distcp" % i: data(i, 3 * MB + 777 * i) for i in range(6)}
content["small"] = b"small"

def write_all(names):
	"""In turns, by one process."""
	fds = {name: os.open(unit + "/" + name, os.O_CREAT | os.O_WRONLY) for name in names}
	for at in range(0, 4 * MB, 100000):
		for name, fd in fds.items():
			os.write(fd, content[name][at:at + 100000])
	for fd in fds.values():
		os.close(fd)

writers = [child(lambda part=part: write_all(part)) for part in (sorted(content)[:3], sorted(content)[3:])]
assert [reap(pid) for pid in writers] == [0, 0]
end(unit, content)
wait_for(unit)
is_whole("step-1", content)

# Rewritten in place, in part.
with open(unit + "/__1_0.distcp", "r+b") as file:
	file.seek(MB)
	file.write(data(9, 2 * MB))
content["__1_0.distcp"] = content["__1_0.distcp"][:MB] + data(9, 2 * MB) + content["__1_0.distcp"][3 * MB:]
assert ckptfs("commit", unit)[0] == 0
wait(lambda: not pending())
is_whole("step-1", content)

# Without room the cache is not held up.
filler = back + "/filler"
os.mkdir(mnt + "/step-2")
wait(lambda: used() - used_before < 20 * MB) # what was replaced has left, and nobody has it open any more
fill_up(filler)
fails(errno.ENOSPC, save, mnt + "/step-2/__0_0.distcp", data(2, 2 * MB))
wait(lambda: not pending())
os.unlink(filler)
is_whole("step-3", make(mnt + "/step-3", 3, 2 * MB))
is_whole("step-1", content)
END
umount_ckptfs
