#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory checkpoint that commits gets an index of its tensors, beside its commit file. It is used
# while it is of that commit, and its loss loses nothing. Tensors that are not whole are told.
# timeout: 120
. "$(dirname "$0")/../lib.sh"
needs_fuse
needs xz

tar -C "$TEST_TMP" -xJf "$SRC/tests/tensors/trees.tar.xz" dcp_fsdp || die "no tree"
TREE=$TEST_TMP/dcp_fsdp/tree
INDEX=.ckptfs-index.json

# save DIR: the tree, as DCP ends it.
save() {
	mkdir "$1" || die "mkdir $1"
	cp "$TREE"/*.distcp "$1" && cp "$TREE/.metadata" "$1/.metadata.tmp" &&
		mv "$1/.metadata.tmp" "$1/.metadata" || die "cannot save $1"
}

# list PATH: the lines of all tensors. Sets $OUT.
list() { run "$CKPTFS" tensors "$@"; }

is_kept() { [ -s "$BACK/$1/$INDEX" ]; }

mount_ckptfs
list "$TREE"
WANTED=$OUT
save "$MNT/step-1"
wait_until 30 is_kept step-1
for place in "$MNT" "$BACK"; do
	list "$place/step-1"
	assert_eq "$OUT" "$WANTED" "the kept index"
done
expect_ok "$CKPTFS" verify "$MNT/step-1"
assert_eq "$(find "$MNT/step-1" -name '.ckptfs-*')" "" "programs see it"
assert_eq "$(stat -c %Y "$BACK/step-1")" "$(stat -c %Y "$BACK/step-1/.metadata")" "the time of the directory"

# It is what is asked: the metadata could not be read any more.
cp "$BACK/step-1/.metadata" "$TEST_TMP/metadata"
truncate -s 0 "$BACK/step-1/.metadata"
truncate -s "$(stat -c %s "$TEST_TMP/metadata")" "$BACK/step-1/.metadata"
list "$BACK/step-1"
assert_eq "$OUT" "$WANTED" "the kept index, without the metadata"

# A damaged one, and one of another commit, are not used: the files are read.
for damage in 's/"F32"/"F16"/' 's/"commit": "[0-9a-f]*"/"commit": "00000000000000000000000000000000"/' '/^"opaque/,$d'; do
	cp "$BACK/step-1/$INDEX" "$TEST_TMP/kept"
	sed -i "$damage" "$BACK/step-1/$INDEX"
	list "$BACK/step-1"
	assert_contains "$OUT" "opaque   .metadata" "a damaged index was used after $damage:"
	cp "$TEST_TMP/kept" "$BACK/step-1/$INDEX"
done
cp "$TEST_TMP/metadata" "$BACK/step-1/.metadata"

# Anybody may make it again, but not of what has no commit file, nor in a mount.
rm "$BACK/step-1/$INDEX"
expect_ok "$CKPTFS" tensors --keep --digest "$BACK/step-1"
assert_contains "$(cat "$BACK/step-1/$INDEX")" '"xxh3"'
expect_fail "$CKPTFS" tensors --keep "$TREE"
assert_contains "$OUT" "is not kept: it has no commit file"
expect_fail "$CKPTFS" tensors --keep "$MNT/step-1"
assert_contains "$OUT" "it lies in a mount"
expect_fail "$CKPTFS" tensors --keep "$TREE/.metadata"
assert_contains "$OUT" "it is a single file"

# What is cut off later is told, whatever is kept.
cp "$BACK/step-1/__1_0.distcp" "$TEST_TMP/part"
truncate -s 100 "$BACK/step-1/__1_0.distcp"
list "$BACK/step-1"
assert_eq "$RC" 1
assert_contains "$OUT" "hole: __1_0.distcp is cut off"
cp "$TEST_TMP/part" "$BACK/step-1/__1_0.distcp"

# A change to the checkpoint is another commit, which gets an index of its own.
OLD=$(grep '"commit"' "$BACK/step-1/$INDEX")
is_of_another() { is_kept step-1 && [ "$(grep '"commit"' "$BACK/step-1/$INDEX")" != "$OLD" ]; }
echo more >"$MNT/step-1/notes.txt"
expect_ok "$CKPTFS" commit "$MNT/step-1"
wait_until 60 is_of_another

# A copy of a backing's directory brings an index along: it gets one of its own.
cp -r "$BACK/step-1" "$MNT/step-2" || die "cannot copy"
expect_ok "$CKPTFS" commit "$MNT/step-2"
wait_until 60 is_kept step-2
assert_eq "$(grep -c '"commit"' "$BACK/step-2/$INDEX")" 1
cmp -s "$BACK/step-1/$INDEX" "$BACK/step-2/$INDEX" && die "the copied index was taken over"

# A rank that has saved nothing fails no commit, and is told once.
rm "$TREE/__1_0.distcp"
save "$MNT/step-3"
save "$MNT/step-4"
wait_until 30 is_kept step-3
wait_until 30 is_kept step-4
is_told() {
	OUT=$("$CKPTFS" status "$MNT") && [[ $OUT == *"incomplete   1"* ]]
}
wait_until 30 is_told
assert_contains "$OUT" "'step-3' is committed, and not all of its tensors are in its files: "
assert_contains "$OUT" "__1_0.distcp is missing"
expect_ok "$CKPTFS" verify "$MNT/step-3"

# Nothing of it stays when a checkpoint is removed, nor when a mount ends.
rm -r "$MNT"/step-[34]
is_gone() { [ -z "$(find "$BACK" -name 'step-[34]' -o -name '.ckptfs-trash*')" ]; }
wait_until 30 is_gone
save "$MNT/step-5"
umount_ckptfs
expect_ok "$CKPTFS" fsck "$BACK"
assert_contains "$OUT" " 0 left by saves that did not end, 0 trash"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	mount_ckptfs
	chmod 1777 "$BACK"
	rm -rf "${MNT:?}"/step-*
	as_user 1234 mkdir "$MNT/step-6"
	for file in "$TREE"/*.distcp "$TREE/.metadata"; do
		# shellcheck disable=SC2016 # for the inner shell
		as_user 1234 sh -c 'cat >"$1"' sh "$MNT/step-6/${file##*/}.tmp" <"$file"
		as_user 1234 mv "$MNT/step-6/${file##*/}.tmp" "$MNT/step-6/${file##*/}"
	done
	wait_until 30 is_kept step-6
	assert_eq "$(stat -c %u:%g "$BACK/step-6/$INDEX")" 1234:1234 "whose it is"
fi
