#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The staging file of a save that fails goes away also where its maker, gone by then, was let into the directory by a supplementary group.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs setpriv
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT"
mkdir "$BACK/project"
chown 0:3000 "$BACK/project"
chmod 2775 "$BACK/project"
program <<'END'
from units import *

def as_member(main):
	def run():
		os.setgroups([3000])
		os.setgid(1200)
		os.setuid(1200)
		main()
	assert reap(child(run)) == 0

# It has no right structure, which shows after its program has ended.
wrong = []
with flush_held():
	as_member(lambda: save(mnt + "/project/x.safetensors", data(1, 3 * MB)))
	as_member(lambda: save(mnt + "/project/removed.pt", data(1, 3 * MB)))
	os.unlink(mnt + "/project/removed.pt")
	if len(staging(back + "/project")) != 1:
		wrong.append(("removed by root", staging(back + "/project")))
published()
assert len(failures()) == 1, failures()
time.sleep(1)
if staging(back + "/project"):
	wrong.append(("failed", [(n, os.stat(back + "/project/" + n).st_size) for n in staging(back + "/project")]))
assert not wrong, wrong
END
umount_ckptfs
