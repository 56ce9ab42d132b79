#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The backing becomes read-only (as disks do on errors): changes fail with EROFS, reads go on, and so does all after it
# is writable again.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
loop_fs ext4 32 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
echo content >"$MNT/file"
wait_until 10 mount -o remount,ro "$BACK"
expect_ok "$PYTHON" - "$MNT" "$(status_of "s['features']['xattr']")" <<'END'
import errno, os, sys
os.chdir(sys.argv[1])
no_xattr = sys.argv[2] != "yes"
for call in (lambda: os.open("file", os.O_WRONLY), lambda: os.open("new", os.O_CREAT | os.O_WRONLY),
		lambda: os.mkdir("d"), lambda: os.unlink("file"), lambda: os.rename("file", "f2"),
		lambda: os.chmod("file", 0o600), lambda: os.truncate("file", 0), lambda: os.symlink("a", "b"),
		lambda: os.link("file", "b"), lambda: os.setxattr("file", "user.a", b"1")):
	try:
		call()
		raise AssertionError("was possible")
	except OSError as e:
		assert e.errno in (errno.EROFS, no_xattr and errno.EOPNOTSUPP), e
assert open("file").read() == "content\n"
END
expect_ok mount -o remount,rw "$BACK"
expect_ok sh -c "echo more >>$MNT/file"
assert_eq "$(cat "$MNT/file")" "content"$'\n'"more"
umount_ckptfs
