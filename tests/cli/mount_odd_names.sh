#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Backing and mount point may have any name: blanks, commas, backslashes, newlines, bytes that are not UTF-8.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
for name in 'a b' 'a,b' 'a\b' 'a\040b' 'a\,b' 'a=b,ro' $'a\nb' $'a\tb' $'\xff\xfe' 'é' '#a' '-o' "a'b" 'a"b' '%s%n' \
	' - fuse.x y' '(deleted)' "$(printf 'n%.0s' {1..255})"; do
	back=$TEST_TMP/back/$name mnt=$TEST_TMP/mnt/$name
	mkdir -p "$back" "$mnt" || die "cannot make $name"
	expect_ok "$CKPTFS" mount -o host_cache_size=64M "$back" "$mnt"
	echo data >"$mnt/file"
	assert_eq "$(cat "$back/file")" data "$name"
	[ -e "$mnt/.ckptfs/status.json" ] || die "not mounted: $name"
	status=$(timeout 2 "$CKPTFS" status --json "$mnt/file") || die "no status of $name"
	# Bytes that are not UTF-8 are replaced in JSON, which cannot have them.
	if [ "$name" != $'\xff\xfe' ]; then
		assert_eq "$(value 'x["backing"] + "|" + x["mountpoint"]' "$status")" "$back|$mnt"
	else
		value 'x["backing"]' "$status" >/dev/null
	fi
	run "$CKPTFS" mount -o host_cache_size=64M "$back" "$mnt"
	assert_contains "$OUT" "is a live ckptfs mount already"
	# Busy, and named.
	exec 9<"$mnt/file"
	run "$CKPTFS" umount "$mnt"
	assert_eq "$RC" 1 "$name: $OUT"
	assert_contains "$OUT" " is in use by "
	exec 9<&-
	expect_ok "$CKPTFS" umount "$mnt"
	[ ! -e "$mnt/file" ] || die "still mounted: $name"
done
cd "$TEST_TMP/back" || die "cannot enter"
expect_ok "$CKPTFS" mount -o host_cache_size=64M -- -o "$TEST_TMP/mnt/-o"
expect_ok "$CKPTFS" umount -- "$TEST_TMP/mnt/-o"
