#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 1200
# needs: root
# The tarball of `make dist`, unpacked anywhere on a bare Debian, saves and verifies; moved, it does so again.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/dist/roots.bash"

for suite in $SUITES; do
	bare_root "$suite"
	made "ckptfs-*-linux-*.tar.gz"
	expect_ok in_root mkdir "/srv/a b"
	expect_ok in_root tar -x -f "$FILE" -C "/srv/a b"
	top="/srv/a b/$(basename "$FILE" .tar.gz)"
	use_command "$top"
	expect_ok in_root mv "$top" /opt/moved
	expect_ok in_root env PATH="/opt/moved/bin:/usr/bin:/bin" ckptfs mount -o host_cache_size=64M /pfs/ckpt /ckpt
	expect_ok in_root /opt/moved/bin/ckptfs umount /ckpt
	expect_ok in_root ln -s /opt/moved/bin/ckptfs /usr/local/bin/ckptfs
	expect_ok in_root ckptfs --version
	in_root rm /usr/local/bin/ckptfs

	# mount(8), as INSTALL says.
	expect_ok in_root sh -c 'cd /opt/moved && ln -s "$PWD/sbin/mount.ckptfs" "$PWD/sbin/umount.fuse.ckptfs" /sbin &&
		ln -s mount.ckptfs /sbin/mount.fuse.ckptfs'
	expect_ok in_root mount -t ckptfs -o host_cache_size=64M /pfs/ckpt /ckpt
	expect_ok in_root umount /ckpt
	[ -s "$ROOT/opt/moved/LICENSE" ] || die "no licence"
	echo "$suite: ok"
done
