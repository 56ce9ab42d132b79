#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Captures of bytes that the kernel has in pages, read or written by a mapping: they come after these, and are what is read
# then, through the mapping too. The size is the new one at once.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

s = Session(arena=4 * MB)
tensor = data(1, MB)
s.register({1: MB})
with open(mnt + "/x.pt", "w+b", 0) as f:
	f.write(b"o" * MB)
	assert os.pread(f.fileno(), MB, 0) == b"o" * MB
	with mmap.mmap(f.fileno(), MB) as m:
		m[:5] = b"store"
		m[8192:8197] = b"store"
		m[MB - 5:] = b"after"
		s.write(f, (1, 10000, 10000, MB - 10005, tensor))
		s.write(f, (1, 0, 0, 5000, tensor))
		s.capture()
		want = tensor[:5000] + b"o" * 3192 + b"store" + b"o" * 1803 + tensor[10000:MB - 5] + b"after"
		assert m[:] == want
		assert os.pread(f.fileno(), MB, 0) == want
		for i in range(1, 4):
			s.write(f, (1, i * MB, 0, MB, tensor))
			assert os.fstat(f.fileno()).st_size == os.stat(mnt + "/x.pt").st_size == (i + 1) * MB
		s.capture()
published()
assert read(back + "/x.pt") == want + 3 * tensor
verify(back + "/x.pt")
assert failures() == []
s.bye()
END
umount_ckptfs
