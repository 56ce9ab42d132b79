#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# st_ino is the backing's: the same by stat, fstat and readdir, for all hard links, after renames and after a remount.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
cat >"$TEST_TMP/look.py" <<'END'
import os, sys
os.chdir(sys.argv[1])
for name in sorted(os.listdir(".")):
	st = os.lstat(name)
	dirent = next(e.inode() for e in os.scandir(".") if e.name == name)
	assert dirent == st.st_ino, (name, dirent, st.st_ino)
	if os.path.isfile(name) and not os.path.islink(name):
		with open(name) as f:
			assert os.fstat(f.fileno()).st_ino == st.st_ino
	if name != ".ckptfs":
		print(name, st.st_ino, st.st_nlink)
END
mkdir "$MNT/dir"
echo a >"$MNT/a"
ln "$MNT/a" "$MNT/hard"
ln "$MNT/a" "$MNT/dir/deep"
ln -s a "$MNT/soft"
mkfifo "$MNT/fifo"
mv "$MNT/hard" "$MNT/harder"
expect_ok "$PYTHON" "$TEST_TMP/look.py" "$BACK"
want=$OUT
assert_contains "$want" " 3" "a has three names"
expect_ok "$PYTHON" "$TEST_TMP/look.py" "$MNT"
assert_eq "$OUT" "$want" "through the mount"
assert_eq "$(stat -c %i:%h "$MNT/a")" "$(stat -c %i:%h "$MNT/dir/deep")" "hard links"
ino=$(stat -c %i "$MNT/a")
mv "$MNT/a" "$MNT/dir/a2"
assert_eq "$(stat -c %i "$MNT/dir/a2")" "$ino" "after a rename"
mv "$MNT/dir/a2" "$MNT/a"
rm "$MNT/dir/deep"
assert_eq "$(stat -c %h "$MNT/harder")" 2 "links left"
umount_ckptfs
mount_ckptfs
expect_ok "$PYTHON" "$TEST_TMP/look.py" "$MNT"
assert_eq "$OUT" "$(sed 's/ 3$/ 2/' <<<"$want")" "after a remount"
umount_ckptfs
