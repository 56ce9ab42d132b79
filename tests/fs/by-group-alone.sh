#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where users may do something by a supplementary group alone, they rename and remove a checkpoint that is open there,
# whichever thread of the daemon serves them, and also when the process that began it, whose groups are asked for, has ended.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv
mount_ckptfs
status_is "s['features']['act_as_caller'] == 'yes'" || skip "the daemon cannot act as its callers here"
for top in shared shared/a shared/b; do
	mkdir -m 770 "$MNT/$top"
	chown 1002:1234 "$MNT/$top"
done
cat >"$TEST_TMP/rename.py" <<'END'
import os, subprocess, sys

os.chdir(sys.argv[1])
# So that no thread serves this process alone, which would have its groups from the last call.
others = [subprocess.Popen([sys.executable, "-c", """
import os
while os.getppid() == %d:
	os.path.exists("missing")
""" % os.getpid()]) for _ in range(4)]
os.mkdir("step-1")
with open("step-1/__0_0.distcp", "wb") as f:
	f.write(b"open")
	for _ in range(300):
		os.rename("step-1", "step-2")
		os.rename("step-2", "step-1")
for other in others:
	other.kill()
END
expect_ok as_user_groups 1003 1234 "$PYTHON" "$TEST_TMP/rename.py" "$MNT/shared"

for end in "mv '$MNT/shared/a/step-3' '$MNT/shared/b'" "rmdir '$MNT/shared/a/step-3'" "touch '$MNT/shared/a/step-3/notes.txt'"; do
	RANK=0 WORLD_SIZE=2 expect_ok as_user_groups 1003 1234 mkdir "$MNT/shared/a/step-3"
	RANK=0 WORLD_SIZE=2 expect_ok as_user_groups 1003 1234 sh -c "$end"
done
assert_eq "$(find "$BACK/shared/a" -type f -printf '%P')" step-3/notes.txt "what was made in the end"
expect_ok as_user_groups 1003 1234 rmdir "$MNT/shared/b/step-3"
umount_ckptfs
