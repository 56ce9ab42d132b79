#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 1200
# needs: root
# After `make install` alone the loader of a bare Debian 12 finds libckptfs, and so does what `pip install client/python` installs:
# no other package is installed in between, which would make the loader look again.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/dist/roots.bash"

grep -qs '^VERSION_ID="12"' /etc/os-release || skip "the program was not built on Debian 12"
bare_root bookworm
may_download
read -r -a packages < <(sed -n 's/^#.*apt-get install -y --no-install-recommends //p' "$SRC/mount-scripts/kubernetes.yaml")
install_in_root "${packages[@]}" make python3 python3-venv
mkdir -p "$ROOT/root/ckptfs/build"
cp -r "$SRC/Makefile" "$SRC/client" "$SRC/engine" "$SRC/fs" "$SRC/mount-scripts" "$ROOT/root/ckptfs"
cp -r "$BUILD/bin" "$BUILD/lib" "$ROOT/root/ckptfs/build"

expect_ok in_root make -C ckptfs -o all install
assert_contains "$OUT" "programs find /usr/local/lib/libckptfs.so.1"
expect_ok in_root python3 -c 'import ctypes; ctypes.CDLL("libckptfs.so.1")'
expect_ok in_root python3 -m venv /venv
expect_ok in_root /venv/bin/pip install --no-index ./ckptfs/client/python
expect_ok in_root rm -r ckptfs
use_python /venv/bin/python
