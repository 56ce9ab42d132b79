#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# make install: into a scratch prefix, found or not by the loader, taken away again; and what a newcomer does wrong with make.

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs make cc

# in_tree ARG...: make, with what is built; nothing is built anew.
in_tree() {
	make --no-print-directory -s -C "$SRC" O="$BUILD" -o all "$@"
}

# The host's own cache of the loader stays as it is.
mkdir stub
printf '#!/bin/sh\necho ran >>%q\n' "$TEST_TMP/refreshed" >stub/ldconfig
chmod +x stub/ldconfig
PATH=$TEST_TMP/stub:$PATH

# --- into a directory of a packager ---

expect_ok in_tree install DESTDIR="$TEST_TMP/root"
assert_contains "$OUT" "installed below $TEST_TMP/root"
assert_contains "$OUT" "ldconfig"
top=$TEST_TMP/root/usr/local
expect_ok "$top/bin/ckptfs" --version
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
expect_ok env -u CKPTFS PATH="$top/bin:/usr/bin:/bin" "$top/bin/ckptfs" mount -o host_cache_size=16M "$BACK" "$MNT"
echo saved >"$MNT/file"
expect_ok "$top/bin/ckptfs" umount "$MNT"
assert_eq "$(cat "$BACK/file")" saved

# A program in C, by pkg-config; it finds the library where LD_LIBRARY_PATH says.
cat >program.c <<'END'
#include <ckptfs.h>
#include <stdio.h>
int main(void)
{
	struct ckptfs_options options = {.rank = 0, .world = 1};
	struct ckptfs *session = NULL;
	printf("%d %s\n", ckptfs_open("/", &options, &session), ckptfs_error(NULL));
	return 0;
}
END
if command -v pkg-config >/dev/null; then
	flags=$(PKG_CONFIG_PATH=$top/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$TEST_TMP/root pkg-config --cflags --libs ckptfs) ||
		die "pkg-config finds no ckptfs"
	# shellcheck disable=SC2086 # they are words
	expect_ok cc -o program program.c $flags
	expect_ok env LD_LIBRARY_PATH="$top/lib" ./program
	assert_contains "$OUT" "no mount of ckptfs"
fi

expect_ok in_tree uninstall DESTDIR="$TEST_TMP/root"
assert_eq "$(find "$TEST_TMP/root" ! -type d)" "" "what uninstall leaves"
[ ! -e refreshed ] || die "ldconfig ran, though nothing came to this host"

# --- a prefix that the loader does not look into ---

mine="prefix=$TEST_TMP/mine sbindir_mount=$TEST_TMP/mine/sbin"
# shellcheck disable=SC2086 # they are words
expect_ok in_tree install $mine
[ "$(id -u)" != 0 ] || [ -e refreshed ] || die "the loader was not told"
if [[ $OUT != *"find another libckptfs.so.1 first"* ]]; then
	assert_contains "$OUT" "programs do not find $TEST_TMP/mine/lib/libckptfs.so.1 yet"
	assert_contains "$OUT" "echo $TEST_TMP/mine/lib >/etc/ld.so.conf.d/ckptfs.conf && ldconfig"
fi
assert_contains "$OUT" "CKPTFS_LIB=$TEST_TMP/mine/lib"
expect_ok env LD_LIBRARY_PATH="$TEST_TMP/mine/lib" "$SRC/mount-scripts/packaging/install-check" after "$TEST_TMP/mine/lib" ""
assert_contains "$OUT" "programs find $TEST_TMP/mine/lib/libckptfs.so.1"
# Another one is found first.
cp -r mine/lib other
expect_ok env LD_LIBRARY_PATH="$TEST_TMP/other" "$SRC/mount-scripts/packaging/install-check" after "$TEST_TMP/mine/lib" ""
assert_contains "$OUT" "programs find another libckptfs.so.1 first: $TEST_TMP/other/libckptfs.so.1"
# The helper of mount(8) takes the command beside it, wherever both are.
expect_ok env -i PATH=/bin mine/sbin/mount.ckptfs /a /b -f -v
assert_contains "$OUT" "/ckptfs mount /a /b"
# shellcheck disable=SC2086 # they are words
expect_ok in_tree uninstall $mine
assert_eq "$(find "$TEST_TMP/mine" ! -type d)" "" "what uninstall leaves"

# --- mistakes ---

# Without the right to write there: before anything is written, and with the way out.
mkdir -p locked/prefix
if [ "$(id -u)" = 0 ]; then
	chmod 755 locked locked/prefix
	expect_fail setpriv --reuid 65534 --regid 65534 --clear-groups "$SRC/mount-scripts/packaging/install-check" before \
		"$TEST_TMP/locked/prefix/usr" "$TEST_TMP/locked/sbin"
	assert_contains "$OUT" "you may not write to $TEST_TMP/locked/prefix, which has to hold $TEST_TMP/locked/prefix/usr"
	assert_contains "$OUT" "sudo make install"
	assert_contains "$OUT" "make install prefix=\$HOME/.local sbindir_mount=\$HOME/.local/sbin"
fi

# Without what the build needs: one message, which names it all, and nothing else.
mkdir bare
for tool in sh make mkdir cat sed uname nproc find grep dirname touch cmp echo id ls; do
	ln -s "$(command -v $tool)" bare/
done
expect_fail env PATH="$TEST_TMP/bare" make --no-print-directory -C "$SRC" O="$TEST_TMP/out" -j4
assert_contains "$OUT" "ckptfs cannot be built: this host lacks cc pkg-config."
assert_contains "$OUT" "\`make deps\`"
assert_contains "$OUT" "libfuse3-dev"
assert_eq "$(grep -c "cannot be built" <<<"$OUT")" 1
[[ $OUT != *"not found"* ]] || die "noise beside the message: $OUT"
printf '#!/bin/sh\nexit 1\n' >bare/pkg-config
printf '#!/bin/sh\nexit 1\n' >bare/cc
chmod +x bare/pkg-config bare/cc
expect_fail env PATH="$TEST_TMP/bare" make --no-print-directory -C "$SRC" O="$TEST_TMP/out"
assert_contains "$OUT" "this host lacks fuse3 jansson liburing libxxhash libcurl."

# make deps where there is no apt-get, and where there is no sudo.
expect_fail env PATH="$TEST_TMP/bare" make --no-print-directory -C "$SRC" O="$TEST_TMP/out" deps
assert_contains "$OUT" "this host has no apt-get. Install, by the names that they have here: gcc make"
printf '#!/bin/sh\nexit 1\n' >bare/apt-get
printf '#!/bin/sh\nexit 1\n' >bare/dpkg-query
rm bare/id
printf '#!/bin/sh\necho 1000\n' >bare/id
chmod +x bare/apt-get bare/dpkg-query bare/id
expect_fail env PATH="$TEST_TMP/bare" make --no-print-directory -C "$SRC" O="$TEST_TMP/out" deps
assert_contains "$OUT" "you are not root, and there is no sudo. As root: apt-get install gcc make"
