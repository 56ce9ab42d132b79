#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 1200
# needs: root
# The wheel of `make dist` brings libckptfs and the command to a bare Debian that has Python; without an index it installs, too.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/dist/roots.bash"

for suite in $SUITES; do
	bare_root "$suite"
	may_download
	install_in_root python3 python3-venv
	made "ckptfs-*.whl"
	expect_ok in_root python3 -m venv /venv
	expect_ok in_root /venv/bin/pip install --no-index "$FILE"
	expect_ok in_root /venv/bin/python -c 'from ckptfs import _lib; _lib.library()
print([line.split()[-1] for line in open("/proc/self/maps") if "libckptfs" in line][0])'
	assert_contains "$OUT" /venv/lib/python3
	use_command /venv
	expect_ok in_root ln -s /venv/bin/ckptfs /usr/local/bin/ckptfs
	use_python /venv/bin/python
	in_root sh -c 'rm /venv/lib/python3*/site-packages/ckptfs/bin/ckptfs'
	expect_fail in_root /venv/bin/ckptfs ls /pfs/ckpt
	assert_contains "$OUT" "cannot be run: No such file or directory. Install the package anew: pip install"
	expect_ok in_root /venv/bin/pip uninstall -y ckptfs
	run in_root sh -c 'ls -d /venv/lib/python3*/site-packages/ckptfs*'
	[ "$RC" != 0 ] || die "pip uninstall leaves: $OUT"
	echo "$suite: ok"
done
