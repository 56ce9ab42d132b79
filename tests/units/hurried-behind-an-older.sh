#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fsync and close of a save do not wait for the descriptors that are left of an older one.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *
x = mnt + "/x.pt"
fd = os.open(x, os.O_CREAT | os.O_WRONLY, 0o644)
left = os.dup(fd)
os.write(fd, b"one")
os.close(fd)
wait(lambda: pending() == {"x.pt": "sealed"})
began = time.monotonic()
fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"two")
os.fsync(fd)
p = subprocess.Popen(["sleep", "0"])
import signal as s
s.setitimer(s.ITIMER_REAL, 15)
s.signal(s.SIGALRM, lambda *a: (_ for _ in ()).throw(TimeoutError("close waits for 15 s: %s" % pending())))
os.close(fd)
s.setitimer(s.ITIMER_REAL, 0)
took = time.monotonic() - began
print(took, pending())
assert took < 5, took
END
umount_ckptfs
