#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who waits to open a file for writing gets the old one when the save that it waits for fails, not the error of that save.
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
x = mnt + "/x.safetensors"
old = safetensors(1, 1000)
save(x, old)
published()
with flush_held():
	save(x, data(1, MB)) # no structure
	def opens():
		fd = os.open(x, os.O_RDWR)
		assert os.pread(fd, 10000, 0) == old
		os.close(fd)
	p = child(opens)
	time.sleep(0.5)
assert reap(p) == 0
END
umount_ckptfs
