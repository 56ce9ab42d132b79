#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# More processes than the daemon has threads read a file that is still to be captured: they wait for that, but its trainer does not
# wait for them.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

READERS = 150
s = Session(arena=8 * MB)
s.register({1: 16 * MB})
content = data(1, 16 * MB)
with open(mnt + "/a.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, 16 * MB, content))
readers = []
for i in range(READERS):
	pid = os.fork()
	if not pid:
		fd = os.open(mnt + "/a.pt", os.O_RDONLY | os.O_DIRECT) # each is a request then
		m = mmap.mmap(-1, 4096)
		os._exit(0 if os.preadv(fd, [m], i * 65536) == 4096 and m[:] == content[i * 65536:][:4096] else 1)
	readers.append(pid)
def waiting():
	said = json.loads(ckptfs("status", "--json", mnt)[1])["requests"] # by its socket, not through the mount
	return said["in_flight"] >= READERS
wait(waiting)
signal.alarm(60)
s.capture()
for pid in readers:
	assert os.waitpid(pid, 0)[1] == 0
s.bye()
END
umount_ckptfs
