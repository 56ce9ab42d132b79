#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing whose version.json is newer or damaged is refused by mount and init, and stays as it is.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir -p "$BACK" "$TEST_TMP/mnt"
expect_ok "$CKPTFS" init "$BACK"
file=$BACK/.ckptfs/version.json
good=$(cat "$file")
echo data >"$BACK/file"

# bad PHRASE: both verbs refuse what is in the file, for that reason.
bad() {
	refused 1 "$BACK/.ckptfs/version.json $1" "$BACK" "$TEST_TMP/mnt"
	local before
	before=$(listing "$BACK")
	expect_fail "$CKPTFS" init "$BACK"
	assert_contains "$OUT" "$BACK/.ckptfs/version.json $1"
	assert_eq "$(listing "$BACK")" "$before" "init changed the backing"
}

echo '{"ckptfs": 999, "uuid": "00000000-0000-4000-8000-000000000000"}' >"$file"
bad "has format 999, this ckptfs knows up to"
assert_contains "$OUT" "use a newer ckptfs"
echo '{"ckptfs": 2, "later": true}' >"$file"
bad "has format 2, this ckptfs knows up to"
echo '{"ckptfs": 0, "uuid": "00000000-0000-4000-8000-000000000000"}' >"$file"
bad "is damaged: no format number in key 'ckptfs'"
assert_contains "$OUT" "No file of yours is affected; move it away and run: ckptfs init $BACK"
echo '{"ckptfs": "1", "uuid": "00000000-0000-4000-8000-000000000000"}' >"$file"
bad "is damaged: no format number in key 'ckptfs'"
echo '{"ckptfs": 1, "uuid": "short"}' >"$file"
bad "is damaged: no uuid"
echo '[1]' >"$file"
bad "is damaged: no format number"
printf '%s' "${good:0:20}" >"$file"
bad "is damaged: not JSON"
: >"$file"
bad "is damaged: not JSON"
head -c 4096 /dev/urandom >"$file"
bad "is damaged: not JSON"
{ printf '%s' "${good%\}}, \"x\": \"" && head -c 1000000 /dev/zero | tr '\0' x && echo '"}'; } >"$file"
bad "is damaged: not JSON"
rm "$file"
mkdir "$file"
bad "is damaged: Is a directory"
rmdir "$file"
mkfifo "$file"
bad "is damaged: not JSON"
rm "$file"
ln -s /etc/passwd "$file"
bad "is damaged: Too many levels of symbolic links"

rm "$file"
expect_ok "$CKPTFS" init "$BACK"
mount_ckptfs
assert_eq "$(cat "$MNT/file")" data
umount_ckptfs
