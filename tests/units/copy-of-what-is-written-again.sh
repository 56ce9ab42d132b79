#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who opens a file to change it while it is being published gets all of its bytes, also of one that is written to again meanwhile.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT"
program <<'END'
from units import *

x = mnt + "/x.pt"
first = data(1, 2 * MB)
second = data(2, MB)
with flush_held():
	fd = os.open(x, os.O_CREAT | os.O_WRONLY, 0o644)
	other = os.dup(fd)
	os.write(fd, first)
	os.close(fd)
	wait(lambda: pending() == {"x.pt": "sealed"})
	out_r, out_w = os.pipe()
	def changes():
		f = os.open(x, os.O_RDWR)
		got = os.pread(f, 4 * MB, 0)
		# The kernel gives the daemon one write in several requests: the end of the second one may be missing yet.
		whole = len(got) >= len(first) and (first + second).startswith(got)
		os.write(out_w, b"ok" if whole else ("torn: %d bytes, zeros %d" % (len(got), got.count(0))).encode())
		os.pwrite(f, b"change", 0)
		os.close(f)
	p = child(changes)
	# it waits
	time.sleep(0.5)
	os.write(other, second)
	time.sleep(0.5)
	os.close(other)
assert reap(p) == 0
told = os.read(out_r, 100)
published()
got = read(x)
want = b"change" + first[6:] + second
assert told == b"ok" and got == want, (told, len(got), got[:10], got[-10:])
END
umount_ckptfs
