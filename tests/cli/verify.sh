#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# verify tells, of files and of all below directories, which have the content that was recorded, which are damaged,
# and of which nothing can be said.

. "${SRC:?}/tests/cli/verbs.sh"

needs python3 setfattr
cd "$TEST_TMP" || die "cannot enter"

# record FILE [DIGEST]: as a save through a mount does.
record() {
	setfattr -n user.ckptfs.xxh3 -v "${2-$(digest "$1")} $(stat -c %s "$1") $(date -r "$1" +%s%N)" "$1"
}

# digest FILE: of those that this test makes, as xxhsum -H128 tells (of big: of its pieces).
digest() {
	case $1 in
	*.big) echo dec73687d76829519b7c4723d67fbe52 ;;
	*) echo c087d461a3bd32b3f1ffab0cb18dcee3 ;;
	esac
}

# verifies STATUS ARGS...: exit status of `ckptfs verify ARGS`. Sets $STDOUT, $STDERR.
verifies() {
	local status=$1
	shift
	"$CKPTFS" verify "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of verify $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(cat "$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

# says STATUS ROW WORDS FILE: a row of the table, and what is said of it on stderr.
says() {
	verifies "$1" "$4"
	assert_eq "$(echo "$STDOUT" | tr -s ' ')" "$2"
	assert_contains "$STDERR" "$3"
}

# make FILE: with a record.
make() {
	printf 'tensor\n' >"$1"
	record "$1"
}

echo x >probe
setfattr -n user.ckptfs.xxh3 -v x probe 2>/dev/null || skip "no extended attributes in $TEST_TMP"

# One file of each kind.
mkdir files
make files/ok.pt
verifies 0 files/ok.pt
assert_eq "$(echo "$STDOUT" | tr -s ' ')" "ok 7 files/ok.pt"
assert_eq "$STDERR" ""

make files/damaged.pt
touch -r files/damaged.pt time
printf 'T' | dd of=files/damaged.pt conv=notrunc status=none
touch -r time files/damaged.pt
says 1 "DAMAGED 7 files/damaged.pt" \
	"files/damaged.pt is damaged: its content has the digest" files/damaged.pt
assert_contains "$STDERR" "that which was saved had $(digest x)"

make files/grown.pt
echo more >>files/grown.pt
says 1 "changed since 12 files/grown.pt" \
	"files/grown.pt was changed since its digest was recorded: it has 12 bytes now and had 7" files/grown.pt

make files/touched.pt
touch -d '2020-02-02 02:02:02' files/touched.pt
says 1 "changed since 7 files/touched.pt" "it was last written at 2020-02-02 02:02:02.000000000, the record is of 2" \
	files/touched.pt

echo x >files/none.pt
says 1 "no record 2 files/none.pt" "files/none.pt has no digest recorded" files/none.pt

echo x >files/odd.pt
for text in garbage "$(printf '%0300d' 0)" "$(digest x) 2 3 4"; do
	setfattr -n user.ckptfs.xxh3 -v "$text" files/odd.pt
	says 1 "no record 2 files/odd.pt" "the extended attribute user.ckptfs.xxh3 of files/odd.pt is not a record" \
		files/odd.pt
done

says 1 "unreadable 0 missing.pt" "cannot verify missing.pt: No such file or directory" missing.pt
says 1 "unreadable 0 " "cannot verify : No such file or directory" ""
ln -s nowhere dangling.pt
says 1 "unreadable 0 dangling.pt" "cannot verify dangling.pt: No such file or directory" dangling.pt
mkfifo fifo.pt
says 1 "unreadable 0 fifo.pt" "cannot verify fifo.pt: it is neither a file nor a directory" fifo.pt

# What the user names is taken: a link, a name that is no checkpoint's, an empty file.
ln -s files/ok.pt link.pt
verifies 0 link.pt
make data
verifies 0 data
: >empty
record empty 99aa06d3014798d86001c324468d497f
verifies 0 empty
make ./--json
verifies 0 -- --json

# More than one piece, the last one a byte.
python3 - >files/model.big <<'END'
import sys
sys.stdout.buffer.write(bytes((i * 31 + (i >> 8) * 17 + (i >> 16)) & 255 for i in range((8 << 20) + 1)))
END
record files/model.big
verifies 0 files/model.big

# Directories: what has a record or the name of a checkpoint.
mkdir -p tree/b/c tree/.ckptfs-1234 tree/.ckptfs
for name in a.safetensors b/z.pth b/c/m.ckpt b/c/m.keras tree; do
	make "tree/$name"
done
echo x >tree/README
echo x >tree/.ckptfs-1234/staged.pt
echo x >tree/.ckptfs-trash-1.pt
echo x >tree/.ckptfs/own.pt
ln -s ../files/damaged.pt tree/link.pt
mkfifo tree/fifo.pt
verifies 0 tree
assert_eq "$STDERR" ""
assert_eq "$(echo "$STDOUT" | tr -s ' ')" "ok 7 tree/a.safetensors
ok 7 tree/b/c/m.ckpt
ok 7 tree/b/c/m.keras
ok 7 tree/b/z.pth
ok 7 tree/tree
5 files: 5 ok"
echo x >tree/b/new.pt
verifies 1 tree files/ok.pt files/damaged.pt
assert_eq "$(echo "$STDOUT" | tail -n 1)" "8 files: 6 ok, 1 DAMAGED, 1 no record"
mkdir bare
echo x >bare/README
says 1 "" "bare holds nothing to verify" bare
verifies 1 files/ok.pt bare

# For machines.
verifies 0 --json files/ok.pt
assert_eq "$(value 'x["ok"], [(f["path"], f["state"], f["size"], f["message"]) for f in x["files"]]' "$STDOUT")" \
	"(True, [('files/ok.pt', 'ok', 7, None)])"
assert_eq "$(value 'x["files"][0]["xxh3"], x["files"][0]["record"]["size"]' "$STDOUT")" "('$(digest x)', 7)"
verifies 1 --json files missing
assert_eq "$(value '[f["state"] for f in x["files"]]' "$STDOUT")" \
	"['damaged', 'changed', 'ok', 'no_record', 'no_record', 'ok', 'changed', 'unreadable']"
assert_eq "$(value '[f["message"] is None for f in x["files"]].count(True), x["ok"]' "$STDOUT")" "(2, False)"
assert_eq "$(value 'x["files"][3]["record"], x["files"][3]["xxh3"]' "$STDOUT")" "(None, None)"
verifies 1 --json bare
assert_eq "$(value 'x' "$STDOUT")" "{'ok': False, 'files': [], 'units': []}"

# Wrong calls.
verifies 2
assert_contains "$STDERR" "give files or directories"
verifies 2 --bogus files
assert_contains "$STDERR" "usage: ckptfs verify [--json] PATH..."
verifies 0 --help
assert_contains "$STDOUT" "usage: ckptfs verify [--json] PATH..."

# On a terminal it tells how far it is, but not of short work; and a file that is written to meanwhile is not damaged.
mkdir long
if slow_reads long slow; then
	truncate -s 64M long/long.pt
	touch -d '1 hour ago' long/long.pt
	setfattr -n user.ckptfs.xxh3 -v "$(printf '0%.0s' {1..32}) $((64 << 20)) $(date -r long/long.pt +%s%N)" long/long.pt
	watched slow/long.pt "$CKPTFS" verify files/ok.pt slow/long.pt
	assert_eq "${OUT##*$'\n'}" 1 "$OUT"
	assert_contains "$OUT" "changed since"
	assert_contains "$OUT" "long.pt was changed since its digest was recorded"
	assert_contains "$OUT" $'\e[K'
	assert_contains "$OUT" " % of 67 MB, "
fi
script -qec "$CKPTFS verify files/ok.pt" /dev/null >short </dev/null
assert_eq "$(tr -d '\r' <short | tr -s ' ')" "ok 7 files/ok.pt" "a short run on a terminal"

# In a mount.
needs_fuse
mount_ckptfs -o log_level=warn
cp -a files/ok.pt files/model.big files/damaged.pt "$BACK"
rm files/*
verifies 1 "$MNT"
assert_eq "$(echo "$STDOUT" | tail -n 1)" "3 files: 2 ok, 1 DAMAGED"
exec 5>"$MNT/open.pt"
echo some >&5
expect_fail "$CKPTFS" verify "$MNT/open.pt"
assert_contains "$OUT" "is still being saved: first, ckptfs wait $MNT/open.pt"
exec 5>&-
expect_ok "$CKPTFS" wait "$MNT/open.pt"
# What is cached is not trusted longer than the file on the backing is the same, whatever its mtime says.
touch -r "$BACK/open.pt" stamp
echo same >"$BACK/open.pt"
touch -r stamp "$BACK/open.pt"
assert_eq "$(cat "$MNT/open.pt")" same "read after a change on the backing"
expect_fail "$CKPTFS" verify "$MNT/open.pt"
rm "$MNT/open.pt" stamp
umount_ckptfs
verifies 0 "$BACK/ok.pt" "$BACK/model.big"
