#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a trainer has removed, and goes on the backing with its next save, is not listed again by who lists the directory meanwhile.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 100 "$TEST_TMP/disk"
mkdir "$TEST_TMP/disk/run"
for i in {1000..2499}; do
	printf x >"$TEST_TMP/disk/run/a-checkpoint-$i.pt"
done
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

run = mnt + "/run"
path = run + "/a-checkpoint-%d.pt"
here = set(os.listdir(run))
save(path % 2500, b"x")
published()
removed = ["a-checkpoint-%d.pt" % n for n in range(1000, 2499, 50)]
for name in removed:
	os.unlink(run + "/" + name)
wait(lambda: len(status()["removals"]) == len(removed))
listing = os.scandir(run)
seen = [next(listing).name] # the daemon has read more than the kernel has asked for
save(path % 2501, b"x")
wait(lambda: not status()["removals"])
assert not set(removed) & set(os.listdir(back + "/run"))
seen += [entry.name for entry in listing]
assert not set(removed) & set(seen), sorted(set(removed) & set(seen))
assert here - set(removed) <= set(seen)
END
umount_ckptfs
