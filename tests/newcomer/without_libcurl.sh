#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A host without libcurl mounts, saves and verifies. coord=etcd alone is refused there, with the name of the package; a libcurl
# that lacks a function counts as none.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to hide libcurl in"
needs ldd cc

[[ $(ldd "$CKPTFS") != *libcurl* ]] || die "the program is linked with libcurl: $(ldd "$CKPTFS")"

BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
expect_ok "$CKPTFS" init "$BACK"
etcd=coord=etcd:http://127.0.0.1:1
refused 1 "etcd at http://127.0.0.1:1: " -o "$etcd" "$BACK" "$MNT" # with libcurl: that is reached for

# A library that has nothing of libcurl but its name.
mkdir lib
echo 'int curl_global_init(long flags); int curl_global_init(long flags) { return (int)flags; }' >other.c
expect_ok cc -shared -fPIC -Wl,-soname,libcurl.so.4 -o lib/libcurl.so.4 other.c
export LD_LIBRARY_PATH=$TEST_TMP/lib
refused 1 "needs libcurl, which this host lacks: libcurl.so.4 has no curl_" -o "$etcd" "$BACK" "$MNT"
unset LD_LIBRARY_PATH

# None: every directory that has one is shown empty of it.
hidden=0
while read -r file; do
	mount --bind /dev/null "$(realpath "$file")" || skip "cannot hide $file"
	hidden=1
done < <(ldconfig -p | sed -n 's/.*libcurl\.so\.4 .*=> //p')
[ "$hidden" = 1 ] || skip "there is no libcurl to hide"
refused 1 "option coord=etcd needs libcurl, which this host lacks: " -o "$etcd" "$BACK" "$MNT"
assert_contains "$OUT" "apt-get install libcurl4"
expect_fail "$CKPTFS" fsck -o "$etcd" "$BACK"
assert_contains "$OUT" "apt-get install libcurl4"
[ ! -e "$BACK/.ckptfs/coord.json" ] || die "coord.json was written"

mount_ckptfs
head -c 1000000 /dev/urandom >data
expect_ok cp data "$MNT/x.pt"
expect_ok "$CKPTFS" wait "$MNT/x.pt"
expect_ok "$CKPTFS" verify "$BACK/x.pt"
umount_ckptfs
