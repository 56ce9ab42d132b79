#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fsck of checkpoints that are directories: what was decided before a crash gets its name; what is whole in staging
# gets it when that is asked for; the rest is told, and removed when that is asked for.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs python3

GEN=
AS=() # words before the command

# save NAME TEXT: a checkpoint of that name, committed.
save() {
	mkdir "$MNT/$1" "$MNT/$1/sub"
	printf '%s' "$2" >"$MNT/$1/__0_0.distcp"
	printf '%s, too' "$2" >"$MNT/$1/sub/part"
	printf 'index' >"$MNT/$1/.metadata.tmp"
	mv "$MNT/$1/.metadata.tmp" "$MNT/$1/.metadata"
	expect_ok "$CKPTFS" wait --timeout 30 "$MNT/$1"
}

# stage NAME: the checkpoint is in staging again. Sets GEN.
stage() {
	GEN=$(value 'x["generation"]' "$(cat "$BACK/$1/.ckptfs-commit.json")")
	mv "$BACK/$1" "$BACK/.ckptfs-$GEN"
}

# decide REPLACES UNIT: its commit is recorded. UNIT may say more.
decide() {
	local text="{\"decision\":\"commit\",\"replaces\":$1,$2}" dir
	dir=$BACK/.ckptfs/txn/$(id -u)
	mkdir -p "$dir"
	chmod 700 "$dir"
	printf 'ckptfs-record %d\n%s' "${#text}" "$text" >"$dir/$GEN.decision"
	chmod 600 "$dir/$GEN.decision"
}

records() {
	find "$BACK/.ckptfs/txn" -type f | wc -l
}

# fsck STATUS ARGS...: sets $STDOUT and $STDERR.
fsck() {
	local status=$1
	shift
	timeout 60 ${AS[@]+"${AS[@]}"} "$CKPTFS" fsck "$@" "$BACK" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of fsck $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(tr -s ' ' <"$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

mount_ckptfs
for name in step-1 step-2 step-3 step-4 step-5; do
	save "$name" "$name"
done
umount_ckptfs
fsck 0

# --- decided ---

stage step-1
decide null '"unit":"step-1"'
before=$(find "$BACK" | sort)
fsck 1 --dry-run
assert_contains "$STDOUT" "would redo step-1"
assert_eq "$(find "$BACK" | sort)" "$before" "what --dry-run changed"
fsck 0
assert_contains "$STDOUT" "redone step-1"
assert_contains "$STDOUT" ", 1 redone"
expect_ok "$CKPTFS" verify "$BACK/step-1"
assert_eq "$(records)" 0 "records left"
fsck 0
assert_contains "$STDOUT" "Nothing was changed"

# Whoever decided it lives, and does it himself.
stage step-1
decide null '"unit":"step-1"'
exec 7<"$BACK/.ckptfs-$GEN"
flock -s 7
fsck 1
assert_contains "$STDERR" ".ckptfs-$GEN is held by a live daemon"
mount_ckptfs
umount_ckptfs
assert_eq "$(cat "$BACK/step-1/__0_0.distcp" 2>/dev/null)" "" "what another does"
assert_eq "$(records)" 1 "records"
exec 7<&-
fsck 0
expect_ok "$CKPTFS" verify "$BACK/step-1"

# Replaced, and the crash came between two renames; any byte may be in the name.
old=$(value 'x["generation"]' "$(cat "$BACK/step-2/.ckptfs-commit.json")")
stage step-3
mv "$BACK/step-2" "$BACK/.ckptfs-trash-$GEN"
decide "{\"generation\":\"$old\"}" '"unit_hex":"737465702d32"'
fsck 0 --json
assert_eq "$(value '[(f["kind"], f["action"], f["path"]) for f in x["found"]]' "$STDOUT")" \
	"[('decided', 'redone', 'step-2')]"
assert_eq "$(cat "$BACK/step-2/__0_0.distcp")" step-3
assert_eq "$(find "$BACK" -name '.ckptfs-*' -path '*trash*')" "" "trash"

# The same, by a mount, over what is there.
stage step-4
decide "{\"generation\":\"$(value 'x["generation"]' "$(cat "$BACK/step-2/.ckptfs-commit.json")")\"}" '"unit":"step-2"'
mount_ckptfs
assert_eq "$(cat "$MNT/step-2/__0_0.distcp")" step-4
umount_ckptfs
assert_eq "$(records)" 0 "records left"

# Something else has the name by now; what a crash left of a record that was being made.
stage step-5
decide null '"unit":"step-2"'
: >"$BACK/.ckptfs/txn/$(id -u)/ffffffffffffffffffffffffffffffff.decision.0123456789abcdef"
fsck 1
assert_contains "$STDERR" "'step-2' was changed behind the mount while a new version of it was being saved"
assert_eq "$(cat "$BACK/step-2/__0_0.distcp")" step-4
assert_eq "$(records)" 0 "records left"

# --- what follows what was decided ---

# new_pointer TEXT: one lies in staging. Sets STAGED. was NAME: what NAME shows, as records say it.
new_pointer() {
	STAGED=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
	printf '%s' "$1" >"$BACK/.ckptfs-$STAGED"
}

was() {
	python3 -c 'import os, sys; print("file", os.stat(sys.argv[1]).st_size, os.getxattr(sys.argv[1], "user.ckptfs.xxh3").split()[0].decode())' \
		"$BACK/$1"
}

generation() {
	value 'x["generation"]' "$(cat "$BACK/$1/.ckptfs-commit.json")"
}

five=$GEN
mv "$BACK/.ckptfs-$five" "$TEST_TMP/five"
if was step-1/.metadata >/dev/null 2>&1; then # else there are no digests
	mount_ckptfs
	save old-1 old-1
	save old-2 old-2
	save new new
	printf old-1 >"$MNT/latest"
	umount_ckptfs
	new_pointer new
	one="{\"name\":\"latest\",\"staged\":\"$STAGED\",\"was\":\"$(was latest)\"}"
	ln -s new "$BACK/.ckptfs-00000000000000000000000000000001"
	two='{"name":"last","staged":"00000000000000000000000000000001","was":"nothing"}'
	gone="{\"name\":\"old-1\",\"generation\":\"$(generation old-1)\"}"
	# Of another generation than what was decided about, or itself.
	kept="{\"name\":\"old-2\",\"generation\":\"$(generation old-1)\"}"
	self="{\"name\":\"new\",\"generation\":\"$(generation new)\"}"
	stage new
	follows="\"pointers\":[$one,$two],\"removals\":[$gone,$kept,$self]"
	decide null "\"unit\":\"new\",$follows"
	before=$(find "$BACK" | sort)
	fsck 1 --dry-run
	assert_contains "$STDOUT" "would redo new"
	assert_contains "$STDOUT" "would point latest"
	assert_contains "$STDOUT" "would point last"
	assert_contains "$STDOUT" "would remove old-1"
	assert_eq "$(find "$BACK" | sort)" "$before" "what --dry-run changed"
	if [ "$(id -u)" = 0 ] && chattr +i "$BACK/latest" 2>/dev/null; then
		fsck 1
		assert_contains "$STDERR" "'latest' was to be changed when 'new' was committed, before a crash, but that cannot be done"
		assert_eq "$(cat "$BACK/latest") $(records) $(ls -d "$BACK/old-1")" "old-1 1 $BACK/old-1"
		mount_ckptfs
		assert_contains "$(cat "$MNT/.ckptfs/failures.json")" "was to be changed when"
		umount_ckptfs
		chattr -i "$BACK/latest"
	fi
	fsck 0
	assert_contains "$STDOUT" "pointed latest"
	assert_contains "$STDOUT" "removed old-1"
	assert_eq "$(cat "$BACK/latest") $(readlink "$BACK/last") $(records)" "new new 0"
	assert_eq "$(cd "$BACK" && ls -d old-* new)" "new"$'\n'"old-2"

	# Nothing follows what is not there, and nothing is changed that is not as it was.
	new_pointer new
	gone="{\"name\":\"old-2\",\"generation\":\"$(generation old-2)\"}"
	follows="\"pointers\":[{\"name\":\"latest\",\"staged\":\"$STAGED\",\"was\":\"nothing\"}],\"removals\":[$gone]"
	GEN=eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee
	decide null "\"unit\":\"nowhere\",$follows"
	fsck 1 # an unfinished save is left
	assert_eq "$(records) $(ls -d "$BACK/old-2")" "0 $BACK/old-2"
	GEN=$(generation new)
	printf old-2 >"$BACK/latest"
	decide null "\"unit\":\"new\",$follows"
	fsck 1
	assert_eq "$(records) $(cat "$BACK/latest") $(ls -d "$BACK/old-2")" "0 old-2 $BACK/old-2"
	fsck 0 --discard
	rm -r "$BACK/old-2" "$BACK/new" "$BACK/latest" "$BACK/last"
fi
GEN=$five
mv "$TEST_TMP/five" "$BACK/.ckptfs-$GEN"

# --- whole, but not decided ---

fsck 1
assert_contains "$STDOUT" "would adopt .ckptfs-$GEN"
assert_contains "$STDERR" ".ckptfs-$GEN is the whole checkpoint 'step-5', which was not given that name"
mkdir "$BACK/step-5"
fsck 1 --adopt
assert_contains "$STDERR" "something else has the name 'step-5' for which it was saved"
rmdir "$BACK/step-5"

# Somebody holds it.
exec 7<"$BACK/.ckptfs-$GEN"
flock -s 7
fsck 1 --discard
assert_contains "$STDERR" ".ckptfs-$GEN is held by a live daemon"
exec 7<&-

# Not what was listed.
printf x >>"$BACK/.ckptfs-$GEN/sub/part"
fsck 1 --adopt
assert_contains "$STDERR" ".ckptfs-$GEN was to become the checkpoint 'step-5', but is not what its commit file lists:"
assert_contains "$STDOUT" "unfinished"
truncate -s -1 "$BACK/.ckptfs-$GEN/sub/part"
fsck 0 --adopt
assert_contains "$STDOUT" "adopted .ckptfs-$GEN"
expect_ok "$CKPTFS" verify "$BACK/step-5"

# --- decided, but damaged ---

stage step-5
decide null '"unit":"step-5"'
echo '{' >"$BACK/.ckptfs-$GEN/.ckptfs-commit.json"
fsck 1
assert_contains "$STDERR" "'step-5' was committed before a crash, but what lies on the backing as .ckptfs-$GEN is not"
assert_eq "$(records)" 1 "records"
fsck 1 --discard
fsck 0
assert_eq "$(records)" 0 "records left"
assert_eq "$(find "$BACK" -name '.ckptfs-*' ! -name .ckptfs-commit.json ! -name .ckptfs-index.json)" "" "what is left"

# --- not begun ---

mkdir -p "$BACK/.ckptfs-$GEN/sub"
: >"$BACK/.ckptfs-$GEN/sub/part"
fsck 1
assert_contains "$STDOUT" "would remove .ckptfs-$GEN"
fsck 1 --adopt
assert_contains "$STDERR" "nothing records for which names the saves .ckptfs-* (1) were, or that they are whole"
fsck 0 --discard
assert_contains "$STDOUT" "removed .ckptfs-$GEN"

# --- where it may not ---

[ "$(id -u)" = 0 ] || exit 0
needs setpriv
stage step-1
mkdir "$BACK/theirs"
mv "$BACK/.ckptfs-$GEN" "$BACK/theirs/"
chown 1001 "$BACK/theirs"
chmod 555 "$BACK/theirs"
AS=(setpriv "--bounding-set=-dac_override,-dac_read_search,-fowner" --)
fsck 1 --adopt
assert_contains "$STDERR" "theirs/.ckptfs-$GEN is whole, but could not be given the name 'step-1': Permission denied"
decide null '"unit":"theirs/step-1"'
# What was decided is never removed.
fsck 1 --discard
assert_contains "$STDERR" "'theirs/step-1' was committed before a crash, but cannot get its name: Permission denied"
AS=()
fsck 0
assert_contains "$STDOUT" "redone theirs/step-1"
