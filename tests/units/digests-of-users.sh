#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a backing without extended attributes, each user has digest records that all who may read the file can read, also if
# nobody has saved before, the umask is 077, or another user has made the directory of the records first.

. "${SRC:?}/tests/cli/verbs.sh"

export CKPTFS_FEATURES_OFF=xattr
user_setup 2222
DIGESTS=$BACK/.ckptfs/digests

# save UID FILE: that user saves it, with a umask of 077.
save() {
	expect_ok as_user "$1" sh -c "umask 077; head -c 5000 /dev/urandom >'$MNT/$2'"
	expect_ok as_user "$1" "$CKPTFS" wait "$MNT/$2"
}

# record FILE: the path of its record.
record() {
	printf '%s/%s/%x' "$DIGESTS" "$(stat -c %u "$BACK/$1")" "$(stat -c %i "$BACK/$1")"
}

# has_record UID FILE: the file of that user has one, in a directory that all can read, and nothing denies it.
has_record() {
	assert_eq "$(stat -c '%F %u %a' "$DIGESTS/$1")" "directory $1 755" "the directory of user $1"
	assert_eq "$(stat -c '%u %g %a' "$(record "$2")")" "$(stat -c '%u %g %a' "$BACK/$2")" "the record of $2"
	for path in "$BACK/$2" "$MNT/$2"; do
		expect_ok as_user "$1" "$CKPTFS" verify "$path"
		assert_contains "$OUT" "ok "
		expect_ok as_user "$1" "$CKPTFS" why "$path"
		assert_contains "$OUT" "${2##*/}: committed"
		expect_ok as_user "$1" "$CKPTFS" latest "${path%/*}"
		assert_contains "$OUT" "${2##*/}"
		! [[ $OUT == *"not written by ckptfs"* ]] || die "$OUT"
	done
}

# The first to save is a user.
chown 0:0 "$BACK" "$CKPTFS_RUN_DIR"
(umask 077 && "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT") || die "cannot mount"
assert_eq "$(stat -c '%u %a' "$DIGESTS")" "0 1777" "the directory of all records"
for user in 2222 3333 4444; do
	mkdir "$MNT/of-$user"
	chown "$user:$user" "$MNT/of-$user"
done
save 2222 of-2222/x.pt
has_record 2222 of-2222/x.pt

# The record has the mode and the group of the file.
mkdir "$MNT/group"
chown 2222:55 "$MNT/group"
chmod 2755 "$MNT/group"
expect_ok as_user_groups 2222 55 sh -c "umask 027; head -c 5000 /dev/urandom >'$MNT/group/y.pt'"
expect_ok "$CKPTFS" wait "$MNT/group/y.pt"
assert_eq "$(stat -c '%g %a' "$(record group/y.pt)")" "55 640" "group and mode of a record"

# root writes into a file of a user: the directory and the record are the user's nevertheless.
install -m 600 -o 3333 -g 3333 /dev/null "$BACK/of-3333/x.pt"
head -c 5000 /dev/urandom >"$MNT/of-3333/x.pt"
expect_ok "$CKPTFS" wait "$MNT/of-3333/x.pt"
assert_eq "$(stat -c %u "$BACK/of-3333/x.pt")" 3333 "the owner after root has written"
has_record 3333 of-3333/x.pt

# A user who may write to the file of another user, but not replace it, takes its record.
chmod 666 "$MNT/of-3333/x.pt"
kept=$(record of-3333/x.pt)
[ -e "$kept" ] || die "no record"
expect_ok as_user 5555 sh -c "echo changed >'$MNT/of-3333/x.pt'"
assert_eq "$(cat "$BACK/of-3333/x.pt")" changed "the file"
[ ! -e "$kept" ] || die "the record of a file that was changed is there"

# A directory, a file or a link that another user has put in its place is moved away.
for way in "mkdir '$DIGESTS/4444'; touch '$DIGESTS/4444/1'" "touch '$DIGESTS/4444'" "ln -s / '$DIGESTS/4444'"; do
	rm -rf "$DIGESTS"/4444*
	expect_ok as_user 5555 sh -c "$way"
	save 4444 of-4444/x.pt
	has_record 4444 of-4444/x.pt
	save 4444 of-4444/x.pt
	assert_eq "$(find "$DIGESTS/4444" -type f)" "$(record of-4444/x.pt)" "records after another save"
done

# A backing of an older version has no directory for them.
rm -r "$DIGESTS"
save 2222 of-2222/x.pt
has_record 2222 of-2222/x.pt
assert_eq "$(stat -c '%u %a' "$DIGESTS")" "0 1777" "the directory of all records, made late"
umount_ckptfs

# A user mounts the backing that root has made, then a new backing of that user.
chown 2222 "$CKPTFS_RUN_DIR"
install -d -o 2222 -g 2222 "$TEST_TMP/mine" "$TEST_TMP/mine/of-2222"
for BACK in "$BACK" "$TEST_TMP/mine"; do
	DIGESTS=$BACK/.ckptfs/digests
	expect_ok as_user 2222 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
	save 2222 of-2222/z.pt
	has_record 2222 of-2222/z.pt
	expect_ok as_user 2222 "$CKPTFS" umount "$MNT"
done
assert_eq "$(stat -c '%u %a' "$DIGESTS")" "2222 1777" "the directory of all records on a user's backing"
