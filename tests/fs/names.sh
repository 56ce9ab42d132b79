#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Names of 255 bytes, not UTF-8, with newlines, blanks and quotes come back as they were given, in every call; 256
# bytes are too many. Status stays valid JSON with such a name in it.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" "$BACK" "$(status_of "s['features']['xattr']")" <<'END'
import errno, os, sys
mnt, back = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
names = [b"x" * 255, b"\xff\xfe\x80", b"\xc3(", "日本語".encode(), b"new\nline", b" lead", b"-rf", b"\"quote'\\", b"\x01\x7f",
	b"...", b"\xed\xa0\x80" * 85, b"%s%n", b"a" * 254 + b"\xc3"]
for name in names:
	path = mnt + b"/" + name
	open(path, "wb").write(name)
	if sys.argv[3] == "yes":
		os.setxattr(path, b"user.name", name)
	os.symlink(name, mnt + b"/link")
	assert os.readlink(mnt + b"/link") == name and open(mnt + b"/link", "rb").read() == name
	os.unlink(mnt + b"/link")
	os.rename(path, path[:-1] + b"Z")
	os.link(path[:-1] + b"Z", path)
	os.unlink(path[:-1] + b"Z")
	assert os.stat(path).st_size == len(name)
	assert sys.argv[3] != "yes" or os.getxattr(path, b"user.name") == name
for top in (mnt, back):
	assert set(os.listdir(top)) - {b".ckptfs"} == set(names)
for name in names:
	os.unlink(mnt + b"/" + name)
	os.mkdir(mnt + b"/" + name)
	open(mnt + b"/" + name + b"/" + name, "wb").close()
	assert os.listdir(mnt + b"/" + name) == [name]
for call in (os.mkdir, os.stat, os.unlink, lambda p: open(p, "w"), lambda p: os.symlink("a", p)):
	try:
		call(mnt + b"/" + b"x" * 256)
		raise AssertionError("256 bytes")
	except OSError as e:
		assert e.errno == errno.ENAMETOOLONG, e
END
if has_failing_name=$(printf '%s/full\xff' "$TEST_TMP") && [ "$(id -u)" = 0 ]; then
	mkdir "$has_failing_name"
	mount -t tmpfs -o size=100k tmpfs "$has_failing_name" || skip "cannot mount a tmpfs"
	mount_ckptfs "$has_failing_name" "$TEST_TMP/mnt2"
	expect_fail dd if=/dev/zero "of=$MNT/"$'\xff\n"' bs=1M count=1
	assert_eq "$(failures_of "len([x for x in f if x['errno'] == 'ENOSPC'])")" 1
	status_is "s['backing'].startswith('/')" || die "status of a backing whose name is not UTF-8"
	umount_ckptfs
	MNT=$TEST_TMP/mnt
fi
umount_ckptfs
