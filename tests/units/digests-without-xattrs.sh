#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a backing without extended attributes the digest of a checkpoint of one file lies beside the records: verify, why and ls
# know it as on any other. It goes with the file, is of one size and time, and nobody can forge that of another user.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
export CKPTFS_FEATURES_OFF=xattr
mount_ckptfs
DIGESTS=$BACK/.ckptfs/digests/$(id -u)
x=$MNT/x.pt

# records: how many there are.
records() {
	find "$BACK/.ckptfs/digests" -type f 2>/dev/null | wc -l
}

has_records() {
	[ "$(records)" = "$1" ]
}

head -c 300000 /dev/urandom >"$x"
expect_ok "$CKPTFS" wait "$x"
assert_eq "$(records)" 1 "records"
file=$DIGESTS/$(printf %x "$(stat -c %i "$BACK/x.pt")")
assert_eq "$(stat -c '%F %a' "$DIGESTS" "$BACK/.ckptfs/digests" | tr '\n' ' ')" "directory 755 directory 1777 "
assert_eq "$(python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.ckptfs.xxh3").decode())' "$x")" "$(cat "$file")"
for path in "$x" "$BACK/x.pt"; do
	expect_ok "$CKPTFS" verify "$path"
	assert_contains "$OUT" "ok "
	expect_ok "$CKPTFS" why "$path"
	assert_contains "$OUT" "x.pt: committed"
	expect_ok "$CKPTFS" ls "$path"
	assert_contains "$OUT" "committed"
	expect_ok "$CKPTFS" wait "$path"
done
assert_eq "$(python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.ckptfs.state").decode())' "$x")" committed

# A directory's commit file has its digests: none beside the records.
mkdir "$MNT/checkpoint-1"
head -c 5000 /dev/urandom >"$MNT/checkpoint-1/pytorch_model.pt"
echo '{}' >"$MNT/checkpoint-1/trainer_state.json"
expect_ok "$CKPTFS" commit "$MNT/checkpoint-1"
expect_ok "$CKPTFS" wait "$MNT/checkpoint-1"
wait_until 10 has_records 1 # a moment after the commit
expect_ok "$CKPTFS" verify "$MNT/checkpoint-1"

# Saved again: that of the old file goes. Changed since, damaged.
head -c 400000 /dev/urandom >"$x"
expect_ok "$CKPTFS" wait "$x"
assert_eq "$(records)" 1 "records after a second save"
expect_ok "$CKPTFS" verify "$BACK/x.pt"
file=$DIGESTS/$(printf %x "$(stat -c %i "$BACK/x.pt")")
cp "$file" "$TEST_TMP/record"
touch -d '2001-01-01' "$BACK/x.pt"
expect_fail "$CKPTFS" verify "$BACK/x.pt"
assert_contains "$OUT" "changed since"
touch -d "@$(python3 -c 'import sys; n = int(open(sys.argv[1]).read().split()[2]); print("%d.%09d" % divmod(n, 10**9))' "$file")" "$BACK/x.pt"
expect_ok "$CKPTFS" verify "$BACK/x.pt"
for garbage in "" "x" "$(head -c 40 "$TEST_TMP/record")" "$(cat "$TEST_TMP/record")$(cat "$TEST_TMP/record")"; do
	printf '%s' "$garbage" >"$file"
	expect_fail "$CKPTFS" verify "$BACK/x.pt"
	assert_contains "$OUT" "no record"
	expect_fail "$CKPTFS" verify "$x"
done
ln -sf "$TEST_TMP/record" "$file"
expect_fail "$CKPTFS" verify "$BACK/x.pt"
rm "$file"

# Another user's record counts for nothing, nor one in a directory of another user's.
if [ "$(id -u)" = 0 ]; then
	cp "$TEST_TMP/record" "$file"
	expect_ok "$CKPTFS" verify "$BACK/x.pt"
	chown 1001 "$file"
	expect_fail "$CKPTFS" verify "$BACK/x.pt"
	expect_fail "$CKPTFS" verify "$x"
	chown 0 "$file"
	chown 1001 "$DIGESTS"
	expect_fail "$CKPTFS" verify "$BACK/x.pt"
	expect_fail "$CKPTFS" verify "$x"
	chown 0 "$DIGESTS"
	expect_ok "$CKPTFS" verify "$x"
	if [ "$TEST_PRIVATE" = 1 ]; then
		mkdir -m 1777 "$MNT/all"
		expect_ok as_user 1001 sh -c "head -c 5000 /dev/urandom >$MNT/all/y.pt"
		expect_ok "$CKPTFS" wait "$MNT/all/y.pt"
		assert_eq "$(stat -c '%u' "$BACK/.ckptfs/digests/1001"/*)" 1001 "owner of a user's record"
		expect_ok as_user 1001 "$CKPTFS" verify "$BACK/all/y.pt"
		expect_ok "$CKPTFS" verify "$BACK/all/y.pt"
		expect_ok as_user 1001 rm "$MNT/all/y.pt"
		assert_eq "$(find "$BACK/.ckptfs/digests/1001" -type f)" "" "records of a file that is gone"
	fi
fi

# A file that keeps another name when it is replaced keeps its record.
head -c 5000 /dev/urandom >"$x"
expect_ok "$CKPTFS" wait "$x"
ln "$BACK/x.pt" "$BACK/kept.pt"
head -c 6000 /dev/urandom >"$x"
expect_ok "$CKPTFS" wait "$x"
expect_ok "$CKPTFS" verify "$BACK/x.pt" "$BACK/kept.pt"
rm "$MNT/kept.pt"
assert_eq "$(records)" 1 "records when the other name is gone"

# A rename takes the record of the file that it replaces.
head -c 7000 /dev/urandom >"$MNT/v.pt"
expect_ok "$CKPTFS" wait "$MNT/v.pt"
assert_eq "$(records)" 2 "records of two files"
mv "$MNT/v.pt" "$x"
expect_ok "$CKPTFS" verify "$BACK/x.pt"
assert_eq "$(records)" 1 "records after a rename over the other file"

# It goes with the file.
head -c 5000 /dev/urandom >"$MNT/z.pt"
expect_ok "$CKPTFS" wait "$MNT/z.pt"
mv "$MNT/z.pt" "$MNT/w.pt"
expect_ok "$CKPTFS" verify "$BACK/w.pt"
rm -r "$MNT/w.pt" "$x"
assert_eq "$(records)" 0 "records when the files are gone"
umount_ckptfs
