#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 1200
# needs: root
# The Debian package of `make dist` on a bare Debian: apt installs it, mount(8), programs and Python find it, and removing it
# leaves nothing.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/dist/roots.bash"

for suite in $SUITES; do
	bare_root "$suite"
	may_download
	made "ckptfs_*.deb"
	find "$ROOT/usr" "$ROOT/etc" ! -type d | sort >before
	install_in_root "$FILE"
	use_command
	expect_ok in_root mount -t ckptfs -o host_cache_size=64M /pfs/ckpt /ckpt
	expect_ok in_root umount /ckpt
	expect_ok in_root env LD_PRELOAD=libckptfs.so.1 /bin/true
	assert_eq "$OUT" "" "the loader finds libckptfs"
	expect_ok in_root apt-get purge -qq -y ckptfs
	find "$ROOT/usr" "$ROOT/etc" ! -type d | sort >after
	assert_eq "$(diff before after | grep '^[<>]' | grep -v __pycache__)" "" "what purge leaves"
	install_in_root python3 "$FILE"
	use_python python3
	echo "$suite: ok"
done
