#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who has a file open, or mapped, that was closed and is not published yet keeps its bytes when it is removed or replaced.
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
old, new = data(1, 3 * MB + 7), data(2, 2 * MB + 9)

def saved_anew():
	save(x, new)

def renamed_over():
	save(x + ".tmp", new)
	os.rename(x + ".tmp", x)

for replaces in False, True:
	for way in saved_anew, os.unlink, renamed_over:
		if replaces:
			save(x, new)
			published()
		wrong = None
		with flush_held():
			save(x, old)
			fd = os.open(x, os.O_RDONLY)
			mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
			way(x) if way is os.unlink else way()
			got = os.pread(fd, len(old), 0)
			if got != old or mapped[:] != old:
				wrong = len(got), got[:16], mapped[:16], os.fstat(fd).st_size
		assert not wrong, (way, replaces, wrong)
		published()
		assert os.pread(fd, len(old), 0) == old == mapped[:], (way, replaces)
		mapped.close()
		os.close(fd)
		if os.path.exists(x):
			os.unlink(x)
assert failures() == [], failures()
END
umount_ckptfs
