#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cpu: 20
# A tree 1500 levels deep of which the daemon holds four descriptors: what lies at the bottom is found again.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mkdir "$TEST_TMP/back"
mount -t tmpfs tmpfs "$TEST_TMP/back" || skip "cannot mount a tmpfs" # so deep that only rm can remove it
export CKPTFS_PIN_BUDGET=4
mount_ckptfs
pid=$(daemon_pid)
expect_ok "$PYTHON" - "$MNT" <<'END'
import os, sys
LEVELS, BESIDE = 1500, 20
os.chdir(sys.argv[1])
middle = None
for i in range(LEVELS):
	os.mkdir("d")
	os.chdir("d")
	if i == LEVELS // 2:
		middle = os.open(".", os.O_RDONLY)
with open("bottom", "w") as f:
	f.write("deep")
here = os.open(".", os.O_RDONLY)
def others(turn):
	for i in range(BESIDE):
		name = "%s/beside.%d.%d" % (sys.argv[1], turn, i)
		os.mkdir(name)
		os.stat(name)
others(0)
assert os.stat("bottom").st_size == 4
others(1)
os.mkdir("below", dir_fd=here)
others(2)
assert sorted(os.listdir(here)) == ["below", "bottom"]
others(3)
assert os.listdir(middle) == ["d"]
others(4)
assert open("bottom").read() == "deep"
END
assert_eq "$(daemon_pid)" "$pid" "pid of the daemon"
pins=$(grep -E '^[a-z_]*pinned_fds[ {]' "$MNT/.ckptfs/metrics") || die "no number of pins"
[ "${pins##* }" -le 4 ] || die "$pins"
expect_ok rm -r "$MNT/d"
umount_ckptfs
