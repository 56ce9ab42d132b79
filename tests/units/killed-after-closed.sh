#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save that fails gives the name back to the one before it, also where that is closed and not published yet: the mount
# shows that, and a removal removes it.
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
old, closed, cut_off = data(1, MB + 3), data(2, 2 * MB + 9), data(3, 3 * MB)

def killed(path=x):
	def main():
		os.write(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), cut_off)
		path == x or os.rename(path, x)
		os.kill(os.getpid(), signal.SIGKILL)
	assert reap(child(main)) == -9
	wait(lambda: any(f["op"] == "save" for f in failures()))

for replaces in False, True:
	for then in "read", "unlink", "rename", "exclusive":
		for path in x, x + ".tmp":
			if replaces:
				save(x, old)
				published()
			wrong = None
			with flush_held():
				save(x, closed)
				killed(path)
				shown = read(x) if os.path.exists(x) else None
				if then == "unlink":
					os.path.exists(x) and rm(x)
				elif then == "rename" and not replaces:
					os.path.exists(x) and os.rename(x, mnt + "/y.pt")
				elif then == "exclusive":
					try:
						os.close(os.open(x, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
						wrong = "made it a second time"
					except FileExistsError:
						pass
			published()
			assert not wrong, (wrong, replaces, path)
			assert shown == closed, ("shown is", "nothing" if shown is None else "the old one", then, replaces, path)
			want = {} if then == "unlink" else {"y.pt" if then == "rename" and not replaces else "x.pt": closed}
			assert names() == sorted(want), (names(), then, replaces, path)
			for name in want:
				assert read(back + "/" + name) == closed, (then, replaces, path)
				rm(mnt + "/" + name)
END
umount_ckptfs
