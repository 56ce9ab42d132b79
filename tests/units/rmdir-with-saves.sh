#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory in which something is being saved is not empty: rmdir is refused, and every save of it is published, also
# that which a newer one of the same name hides.
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
d = mnt + "/d"
os.mkdir(d)
new = {"%d.pt" % nr: data(nr, 100000 + nr) for nr in range(8)}
with flush_held():
	for name in new:
		save(d + "/" + name, b"older")
		save(d + "/" + name, new[name])
	hidden = staging(back + "/d")
	fails(errno.ENOTEMPTY, os.rmdir, d)
	assert names(d) == sorted(new), names(d)
	assert staging(back + "/d") == hidden
published()
assert {name: read(back + "/d/" + name) for name in names(back + "/d")} == new
assert failures() == [], failures()
END
umount_ckptfs
