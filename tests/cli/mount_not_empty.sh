#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount point with files in it is refused, since a mount would hide them, unless -o nonempty asks for that.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir -p "$BACK/used" "$MNT"
touch "$MNT/one"
refused 1 "the mount point $MNT is not empty: the mount would hide 'one'. Nothing was changed" "$BACK" "$MNT"
assert_contains "$OUT" "with -o nonempty"
[[ $OUT != *swap* ]] || die "nothing looks swapped: $OUT"
touch "$MNT/two" "$MNT/three" "$MNT/four" "$MNT/"$'\e[2Jfive'
refused 1 " and more. Nothing was changed" "$BACK" "$MNT"
[[ $OUT =~ "would hide '"[^\']*"', '"[^\']*"', '"[^\']*"' and more." ]] || die "not three names: $OUT"
[[ $OUT != *$'\e'* ]] || die "what moves a cursor: $OUT"

# Arguments swapped: the other one is empty, or this one is a backing.
mkdir "$TEST_TMP/empty"
refused 1 "did you swap BACKING and MOUNTPOINT? Then: ckptfs mount $MNT $TEST_TMP/empty." "$TEST_TMP/empty" "$MNT"
expect_ok "$CKPTFS" init "$BACK"
refused 1 "did you swap BACKING and MOUNTPOINT? Then: ckptfs mount $BACK $MNT." "$MNT" "$BACK"

# Asked for.
for how in "-o nonempty" "-o ro,nonempty"; do
	# shellcheck disable=SC2086 # words
	expect_ok "$CKPTFS" mount -o host_cache_size=64M $how "$BACK" "$MNT"
	[ -d "$MNT/used" ] || die "not mounted"
	[ ! -e "$MNT/one" ] || die "not hidden"
	umount_ckptfs
done
[ -e "$MNT/one" ] || die "lost"

# What a dead daemon left is cleared first; below it the directory is looked at as ever.
expect_ok "$CKPTFS" mount -o host_cache_size=64M,nonempty "$BACK" "$MNT"
kill9_and_reaped "$(daemon_pid)" 10
run "$CKPTFS" mount "$BACK" "$MNT"
assert_eq "$RC" 1
assert_contains "$OUT" "held the remains of a dead ckptfs daemon; cleared them"
assert_contains "$OUT" "the mount would hide "
[ -z "$(ckptfs_mounts)" ] || die "not cleared"

# By mount(8), and by fstab.
[ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ] || exit 0
install_helper
run mount -t ckptfs "$BACK" "$MNT"
assert_eq "$RC" 32 "$OUT"
assert_contains "$OUT" "the mount would hide "
echo "$BACK $MNT ckptfs nonempty,host_cache_size=64M 0 0" >"$TEST_TMP/fstab"
expect_ok mount --fstab "$TEST_TMP/fstab" -a
[ -d "$MNT/used" ] || die "not mounted"
umount_ckptfs
