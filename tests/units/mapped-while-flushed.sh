#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What is stored through a mapping into a part of a file that is just being flushed is published, however long that takes.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT: nothing waits before it is published"
program <<'END'
from units import *
x = mnt + "/x.pt"
content = data(1, MB)
fd = os.open(x, os.O_CREAT | os.O_RDWR)
mapped = None
with gate_closed():
	os.write(fd, bytes(MB))
	wait(lambda: status()["flush"]["in_flight"])
	mapped = mmap.mmap(fd, MB)
	mapped[:] = content
	# Not msync, which also waits until the bytes are durable.
	assert ctypes.CDLL(None).sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 7) == 0
mapped.close()
os.close(fd)
published()
assert read(back + "/x.pt") == content == read(x)
verify(back + "/x.pt")
assert failures() == [], failures()
END
umount_ckptfs
