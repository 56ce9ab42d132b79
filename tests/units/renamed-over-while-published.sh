#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file renamed over one that is closed, and published, at that moment stays.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
program <<'END'
from units import *
x = mnt + "/x.pt"
wrong = []
nr = 0
for i in range(10):
	save(mnt + "/other", b"other" * 1000)
	fd = os.open(x, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
	os.write(fd, data(i, 5000))
	with gate_closed():
		q = subprocess.Popen(["mv", "-f", mnt + "/other", x])
		wait(lambda: q.poll() is not None or status()["requests"]["in_flight"])
		waited = q.poll() is None
		os.close(fd)
		wait(lambda: status()["open_handles"] == 0)
		state = pending()
	assert q.wait() == 0
	published()
	got = read(x)
	if got != b"other" * 1000 or staging() or len(failures()) > nr:
		wrong.append((i, waited, state, "kept" if got == b"other" * 1000 else "LOST", staging(), [f["message"][:40] for f in failures()[:1]]))
		for n in staging():
			os.unlink(back + "/" + n)
	nr = len(failures())
	os.unlink(x)
assert not wrong, wrong
END
umount_ckptfs
