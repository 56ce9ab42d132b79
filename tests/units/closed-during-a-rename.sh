#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file whose last close comes while it is being renamed is published.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs fsfreeze
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
mkdir "$MNT/d"
program "$TEST_TMP/disk" <<'END'
from units import *

x, y = mnt + "/x.pt", mnt + "/d/y.pt"
content = data(1, 100000)
fd = os.open(x, os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, content)
subprocess.run(["fsfreeze", "-f", sys.argv[1]], check=True)
try:
	renamer = subprocess.Popen(["mv", x, y])
	wait(lambda: pending() == {"x.pt": "sealed"} or "publishing" in str(pending()) or
		any(w["op"].startswith("RENAME") for w in status()["requests"]["waiting"]))
	os.close(fd)
	wait(lambda: status()["open_handles"] == 0)
finally:
	subprocess.run(["fsfreeze", "-u", sys.argv[1]], check=True)
assert renamer.wait() == 0
wait(lambda: os.path.exists(back + "/d/y.pt"), 8)
END
umount_ckptfs
