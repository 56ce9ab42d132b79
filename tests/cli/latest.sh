#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# latest names the newest committed checkpoint: by sequence among directories beside each other, by time otherwise;
# with --verify the newest that verifies; and one that ckptfs did not write only for want of these.

. "${SRC:?}/tests/cli/verbs.sh"

needs python3 setfattr
cd "$TEST_TMP" || die "cannot enter"

# latest STATUS ANSWER ARGS...: exit status and output of `ckptfs latest ARGS`. Sets $STDERR.
latest() {
	local status=$1 answer=$2
	shift 2
	timeout 60 "$CKPTFS" latest "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of latest $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDERR=$(cat "$TEST_TMP/.stderr")
	assert_eq "$(cat "$TEST_TMP/.stdout")" "$answer" "latest $*"
}

# unit DIR SEQUENCE NS
unit() {
	mkdir -p "$1"
	printf 'model' >"$1/model.pt"
	touch -d '2001-01-01' "$1/model.pt"
	python3 "$SRC/tests/cli/commit.py" "$1" "sequence=$2" "ns=$3" || die "no commit file in $1"
}

# file FILE SECONDS: a checkpoint file that was saved so many seconds after the epoch.
file() {
	printf 'tensor\n' >"$1"
	touch -d "@$2" "$1"
	setfattr -n user.ckptfs.xxh3 -v "c087d461a3bd32b3f1ffab0cb18dcee3 7 ${2}000000000" "$1"
}

# foreign FILE SECONDS
foreign() {
	printf 'x' >"$1"
	touch -d "@$2" "$1"
}

echo x >probe
setfattr -n user.ckptfs.xxh3 -v x probe 2>/dev/null || skip "no extended attributes in $TEST_TMP"

# --- none, and those that ckptfs did not write ---

mkdir -p b
latest 1 "" b
assert_contains "$STDERR" "there is no checkpoint at or below b"
latest 1 "" missing
assert_eq "$STDERR" "ckptfs: missing does not exist. \`ckptfs ls\` of a directory lists the checkpoints below it"
foreign b/old.pt 1000
mkdir b/sub
foreign b/sub/new.safetensors 2000
foreign b/README 3000
foreign b/part.pt.tmp 3000
latest 0 b/sub/new.safetensors b
assert_contains "$STDERR" "b/sub/new.safetensors was not written by ckptfs"
latest 1 "" --verify b
assert_contains "$STDERR" "no checkpoint at or below b verifies"
expect_ok "$CKPTFS" latest --json b
assert_eq "$("$CKPTFS" latest --json b 2>/dev/null | python3 -c 'import json, sys; x = json.load(sys.stdin); print(x["ok"], x["path"], x["state"], x["kind"], x["time_ns"])')" \
	"True b/sub/new.safetensors foreign file 2000000000000"

# --- committed ones come first, however old ---

file b/a.pt 500
file b/b.pt 600
latest 0 b/b.pt b
assert_eq "$STDERR" ""
# One that was changed since is none.
echo more >>b/b.pt
latest 0 b/a.pt b
assert_contains "$STDERR" "b/b.pt is newer, but modified: it is passed over"
rm b/b.pt

# --- directories: beside each other by sequence, whatever the clocks said ---

unit b/run/step-1 1 3000000000000
unit b/run/step-2 2 2000000000000
unit b/run/step-10 3 1000000000000
latest 0 b/run/step-10 b
latest 0 b/run/step-10 b/run/
unit b/run/step-11 3 1500000000000
latest 0 b/run/step-11 b # one sequence: the later
# Elsewhere by time: the newest of another parent, a file.
unit b/other/deep/step-1 1 1400000000000
latest 0 b/run/step-11 b
unit b/other/deep/step-1 1 1600000000000
latest 0 b/other/deep/step-1 b
file b/run/c.pt 1700
latest 0 b/run/c.pt b
latest 0 b/run/step-11 b/run/step-11
rm b/run/c.pt
# What is inside of one is a part of it; a change that is pending does not matter.
unit b/other/deep/step-1/inner 9 9000000000000
cp b/other/deep/step-1/.ckptfs-commit.json b/other/deep/step-1/.ckptfs-commit.next.json
latest 0 b/other/deep/step-1 b
rm -r b/other/deep/step-1/inner b/other/deep/step-1/.ckptfs-commit.next.json
# No link leads there, and nothing hidden counts.
mkdir away
mv b/other/deep/step-1 away/step-1
ln -s ../../away b/other/link
cp -a away/step-1 b/.ckptfs-trash-1
latest 0 b/run/step-11 b
# One whose commit file is no good is told, and passed over.
echo garbage >b/run/step-11/.ckptfs-commit.json
latest 0 b/run/step-10 b
assert_contains "$STDERR" "the commit file b/run/step-11/.ckptfs-commit.json is damaged"
assert_eq "$("$CKPTFS" latest --json b 2>/dev/null | python3 -c 'import json, sys; x = json.load(sys.stdin); print(x["path"], x["sequence"], x["verified"], len(x["generation"]))')" \
	"b/run/step-10 3 False 32"

# --- verified ---

latest 0 b/run/step-10 --verify b
# By the structure alone: bytes that were changed in place do not show, a size and a file that is gone do.
printf 'M' | dd of=b/run/step-10/model.pt conv=notrunc status=none
touch -d '2001-01-01' b/run/step-10/model.pt
latest 0 b/run/step-10 --verify=structure b
[[ $STDERR != *step-10* ]] || die "it was told of: $STDERR"
latest 0 b/run/step-2 --verify=full b
printf 'more' >>b/run/step-10/model.pt
latest 0 b/run/step-2 --verify=structure b
assert_contains "$STDERR" "b/run/step-10 is newer, but does not verify: it was passed over"
printf 'model' >b/run/step-10/model.pt
touch -d '2001-01-01' b/run/step-10/model.pt
latest 0 b/run/step-10 --verify=structure b
rm b/run/step-10/model.pt
latest 0 b/run/step-10 b
latest 0 b/run/step-10 --verify=none b
latest 0 b/run/step-2 --verify=structure b
latest 0 b/run/step-2 --verify b
assert_contains "$STDERR" "b/run/step-10 is newer, but does not verify: it was passed over"
rm b/run/step-2/model.pt b/run/step-1/model.pt
latest 0 b/a.pt --verify b
printf 'T' | dd of=b/a.pt conv=notrunc status=none
touch -d @500 b/a.pt
latest 1 "" --verify b
assert_contains "$STDERR" "no checkpoint at or below b verifies"
# Nor does an old file that ckptfs did not write stand in for those that do not verify.
touch -d @501 b/a.pt
latest 1 "" --verify=structure b
assert_contains "$STDERR" "no checkpoint at or below b verifies"
touch -d @500 b/a.pt
run "$CKPTFS" latest --verify --json b
assert_eq "$RC" 1
assert_eq "$("$CKPTFS" latest --verify --json b 2>/dev/null | python3 -c 'import json, sys; x = json.load(sys.stdin); print(x["ok"], "path" in x, "verifies" in x["message"])')" \
	"False False True"

# --- usage ---

latest 2 ""
assert_contains "$STDERR" "give one directory"
latest 2 "" --verify=perhaps b
assert_contains "$STDERR" "--verify takes structure, full or none"
latest 2 "" --bogus b
assert_contains "$STDERR" "usage: ckptfs latest [--verify[=HOW]] [--json] DIR"
expect_ok "$CKPTFS" latest --help
assert_contains "$OUT" "usage: ckptfs latest [--verify[=HOW]] [--json] DIR"

# --- in a mount: what is being saved is none ---

needs_fuse
mount_ckptfs
printf 'tensor\n' >"$MNT/a.pt"
expect_ok "$CKPTFS" wait "$MNT/a.pt"
exec 5>"$MNT/b.pt"
printf 'some' >&5
latest 0 "$MNT/a.pt" "$MNT"
latest 0 "$MNT/a.pt" --verify "$MNT"
exec 5>&-
expect_ok "$CKPTFS" wait "$MNT/b.pt"
latest 0 "$MNT/b.pt" "$MNT"
rm "$MNT/a.pt" "$MNT/b.pt"
exec 5>"$MNT/b.pt"
printf 'some' >&5
latest 1 "" "$MNT"
assert_contains "$STDERR" "there is no checkpoint at or below $MNT. One that is being saved does not count"
exec 5>&-
umount_ckptfs
