#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a backing without O_DIRECT files are made and opened with it all the same: where that is known of the backing, and
# where it could not be tried.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mkdir "$TEST_TMP/back"
mount -t ramfs ramfs "$TEST_TMP/back" || skip "cannot mount a ramfs"
if dd if=/dev/zero of="$TEST_TMP/back/probe" bs=4096 count=1 oflag=direct 2>/dev/null; then
	skip "this ramfs has O_DIRECT"
fi
rm -f "$TEST_TMP/back/probe"
for known in unknown no; do
	# No directory of ckptfs, no try.
	[ "$known" = no ] || echo mine >"$TEST_TMP/back/.ckptfs"
	mount_ckptfs
	[ -n "${CKPTFS_FEATURES_OFF-}" ] || status_is "s['features']['odirect'] == '$known'" || die "not $known"
	expect_ok "$PYTHON" - "$MNT" <<'END'
import mmap, os, sys
os.chdir(sys.argv[1])
page = mmap.mmap(-1, 4096)
page[:] = b"x" * 4096
for flags, mode in ((os.O_EXCL, 0o644), (0, 0o644), (0, 0o400), (os.O_TRUNC, 0o644)):
	fd = os.open("file", os.O_CREAT | os.O_RDWR | os.O_DIRECT | flags, mode)
	assert os.pwrite(fd, page, 0) == 4096 and os.preadv(fd, [page], 0) == 4096
	assert os.fstat(fd).st_mode & 0o7777 == mode
	os.close(fd)
	fd = os.open("file", os.O_RDONLY | os.O_DIRECT)
	assert os.read(fd, 9999) == b"x" * 4096
	os.close(fd)
	os.unlink("file")
END
	assert_eq "$(ls "$MNT")" ""
	umount_ckptfs
	rm -rf "$TEST_TMP/back/.ckptfs"
done
