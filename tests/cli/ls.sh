#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ls lists the checkpoints below a path: directories with a commit file, files, those that are being saved, and with
# --all what is hidden.

. "${SRC:?}/tests/cli/verbs.sh"

needs python3 setfattr
cd "$TEST_TMP" || die "cannot enter"

STAGED=.ckptfs-0123456789abcdef0123456789abcdef

# lists STATUS ARGS...: exit status of `ckptfs ls ARGS`. Sets $STDOUT, $STDERR.
lists() {
	local status=$1
	shift
	timeout 60 "$CKPTFS" ls "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of ls $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(cat "$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

# rows: what was printed below the head, blanks made one, without the last line.
rows() {
	printf '%s\n' "$STDOUT" | tail -n +2 | sed '/^newest good: /d' | tr -s ' '
}

# record FILE: as a save through a mount does.
record() {
	printf 'tensor\n' >"$1"
	touch -d '3 hours ago' "$1"
	setfattr -n user.ckptfs.xxh3 -v "c087d461a3bd32b3f1ffab0cb18dcee3 7 $(date -r "$1" +%s%N)" "$1"
}

# unit DIR [KEY=VALUE]...: a checkpoint of 5 bytes, two days old.
unit() {
	mkdir -p "$1"
	printf 'model' >"$1/model.pt"
	python3 "$SRC/tests/cli/commit.py" "$1" ns=$((($(date +%s) - 2 * 86400 - 60) * 1000000000)) "${@:2}" ||
		die "no commit file in $1"
}

echo x >probe
setfattr -n user.ckptfs.xxh3 -v x probe 2>/dev/null || skip "no extended attributes in $TEST_TMP"

# --- what it finds ---

mkdir -p b/run/deep away
unit b/run/step-1 ranks=64
unit b/run/step-2
unit b/run/step-2/inner
cp b/run/step-2/.ckptfs-commit.json b/run/step-2/.ckptfs-commit.next.json
unit b/run/step-3
truncate -s -5 b/run/step-3/.ckptfs-commit.json
record b/run/deep/a.pt
record b/run/b.safetensors
echo more >>b/run/b.safetensors
printf 'x' >b/run/c.ckpt
setfattr -n user.ckptfs.xxh3 -v garbage b/run/c.ckpt
printf 'foreign' >b/z.keras
touch -d '4 days ago' b/z.keras b/run/b.safetensors b/run/c.ckpt
# Nothing of these.
echo x >b/run/README
echo x >b/run/tmp.pt.tmp
unit away/step-1
record away/away.pt
ln -s ../../away b/run/link
ln -s ../../away/away.pt b/run/link.pt
mkdir b/.ckptfs
echo x >b/.ckptfs/own.pt
printf 'part' >b/run/$STAGED
mkdir b/run/.ckptfs-trash-1
printf 'old' >b/run/.ckptfs-trash-1/model.pt
touch -d '5 days ago' b/run/$STAGED b/run/.ckptfs-trash-1

lists 0 b
assert_eq "$(head -n 1 <<<"$STDOUT" | tr -s ' ')" "STATE SIZE RANKS NODES AGE PATH"
assert_eq "$(rows)" "modified 12 B - - 4 d b/run/b.safetensors
modified 1 B - - 4 d b/run/c.ckpt
committed 7 B - - 3 h b/run/deep/a.pt
committed 5 B 64 1 2 d b/run/step-1
modified 5 B 8 1 2 d b/run/step-2
damaged - - - - b/run/step-3
foreign 7 B - - 4 d b/z.keras"
assert_contains "$STDERR" "the commit file b/run/step-3/.ckptfs-commit.json is damaged"
lists 0 --all b/
assert_contains "$(rows)" "unfinished 4 B - - 5 d b/run/$STAGED"
assert_contains "$(rows)" "trash 3 B - - 5 d b/run/.ckptfs-trash-1"
assert_eq "$(rows | cut -d' ' -f1 | sort | uniq -c | tr -s ' ' | tr '\n' ';')" \
	" 2 committed; 1 damaged; 1 foreign; 3 modified; 1 trash; 1 unfinished;"
assert_eq "$(rows | awk '{print $NF}')" "$(rows | awk '{print $NF}' | sort)" "the order"

lists 0 --json b
assert_eq "$(value '[(u["path"], u["state"], u["kind"], u["size"]) for u in x["units"] if u["kind"] == "file"]' "$STDOUT")" \
	"[('b/run/b.safetensors', 'modified', 'file', 12), ('b/run/c.ckpt', 'modified', 'file', 1), ('b/run/deep/a.pt', 'committed', 'file', 7), ('b/z.keras', 'foreign', 'file', 7)]"
assert_eq "$(value '[(u["path"], u["ranks"], u["files"], u["sequence"], len(u["generation"])) for u in x["units"] if "ranks" in u]' "$STDOUT")" \
	"[('b/run/step-1', 64, 1, 1, 32), ('b/run/step-2', 8, 1, 1, 32)]"
assert_eq "$(value 'x["ok"], round(x["units"][3]["age_s"] / 86400)' "$STDOUT")" "(True, 2)"

# A checkpoint itself, a file that is none, nothing, a link that the user names.
lists 0 b/run/step-1
assert_eq "$(rows)" "committed 5 B 64 1 2 d b/run/step-1"
lists 0 b/run/deep/a.pt
assert_eq "$(rows)" "committed 7 B - - 3 h b/run/deep/a.pt"
lists 0 b/z.keras
assert_eq "$(rows)" "foreign 7 B - - 4 d b/z.keras"
lists 0 b/run/c.ckpt
assert_eq "$(rows)" "modified 1 B - - 4 d b/run/c.ckpt"
lists 0 b/run/README
assert_eq "$STDOUT" ""
lists 0 b/run/link
assert_eq "$(rows)" "committed 7 B - - 3 h b/run/link/away.pt
committed 5 B 8 1 2 d b/run/link/step-1"
lists 1 missing
assert_contains "$STDERR" "missing does not exist"
lists 1 --json missing
assert_eq "$(value 'x["ok"], x["units"], x["error"]["code"]' "$STDOUT")" "(False, [], 'ENOENT')"

# Odd names.
mkdir odd
printf 'x' >odd/$'\xff\n\x1b[31m.pt'
lists 0 odd
assert_contains "$STDOUT" '??[31m.pt'
lists 0 --json odd
assert_eq "$(value 'x["units"][0]["path_hex"][:10]' "$STDOUT")" 6f64642fff

# As people count; the newest that is committed at the end, as latest says it.
mkdir -p series
for n in 1 2 10 9; do
	unit series/step-$n sequence=$n "ns=$((n * 1000000000))"
	head -c $((20 - n)) /dev/zero >series/step-$n/pad
done
printf 'x' >series/step-03.pt
printf 'xx' >series/step-11.pt
touch -d @5 series/step-03.pt
touch -d @1 series/step-11.pt
lists 0 series
assert_eq "$(rows | awk '{print $NF}' | tr '\n' ' ')" \
	"series/step-1 series/step-2 series/step-03.pt series/step-9 series/step-10 series/step-11.pt "
assert_eq "$(tail -n 1 <<<"$STDOUT")" "newest good: series/step-10"
assert_eq "$("$CKPTFS" latest series)" series/step-10
lists 0 --sort=age series
assert_eq "$(rows | awk '{print $NF}' | tr '\n' ' ')" \
	"series/step-1 series/step-11.pt series/step-2 series/step-03.pt series/step-9 series/step-10 "
lists 0 --sort size series
assert_eq "$(rows | awk '{print $NF}' | head -n 2 | tr '\n' ' ')" "series/step-03.pt series/step-11.pt "
lists 0 --json series
assert_eq "$(value 'x["newest_good"], x["units"][0]["path"]' "$STDOUT")" "('series/step-10', 'series/step-1')"
lists 2 --sort=date series
assert_contains "$STDERR" "--sort is name, age or size, not 'date'"
lists 0 b/z.keras
assert_eq "$(tail -n 1 <<<"$STDOUT")" "newest good: none is committed"

# What cannot be looked at.
if [ "$(id -u)" = 0 ]; then
	needs setpriv
	mkdir closed
	chown 1001 closed
	chmod 700 closed
	run setpriv --bounding-set=-dac_override,-dac_read_search "$CKPTFS" ls closed
	assert_eq "$RC" 1
	assert_contains "$OUT" "cannot look at closed: Permission denied"
	run setpriv --bounding-set=-dac_override,-dac_read_search "$CKPTFS" ls .
	assert_eq "$RC" 1
	assert_contains "$OUT" "cannot look at ./closed: Permission denied"
	assert_contains "$OUT" "./b/run/step-1"
	rmdir closed
fi

# Usage.
lists 2
assert_contains "$STDERR" "give one path"
lists 2 --bogus b
assert_contains "$STDERR" "usage: ckptfs ls [--all] [--sort=KEY] [--json] PATH"
lists 0 --help
assert_contains "$STDOUT" "usage: ckptfs ls [--all] [--sort=KEY] [--json] PATH"

# --- in a mount ---

needs_fuse
mkdir -p back/dir
printf 'part' >back/dir/$STAGED
mount_ckptfs "$TEST_TMP/back"
printf 'tensor\n' >"$MNT/dir/done.pt"
expect_ok "$CKPTFS" wait "$MNT/dir/done.pt"
printf 'older' >"$BACK/dir/foreign.pt"
exec 5>"$MNT/dir/open.pt"
printf 'some' >&5
lists 0 "$MNT"
assert_eq "$(rows | sed 's/ [0-9]* s / N s /; s/^sealed/open/')" "committed 7 B - - N s $MNT/dir/done.pt
foreign 5 B - - N s $MNT/dir/foreign.pt
open 4 B - - N s $MNT/dir/open.pt"
lists 0 "$MNT/dir/open.pt"
[[ $(rows) == @(open|sealed)" 4 B"* ]] || die "$STDOUT"
lists 0 "$MNT/dir/"
assert_contains "$(rows)" " $MNT/dir/open.pt"
mkdir "$MNT/di"
lists 0 "$MNT/di"
assert_eq "$STDOUT" "" "what a directory shows whose name another's begins with"
lists 0 --all "$MNT/dir"
assert_eq "$(rows | cut -d' ' -f1 | sed 's/sealed/open/' | tr '\n' ' ')" "unfinished committed foreign open "
assert_contains "$(rows)" "$MNT/dir/$STAGED"
lists 0 "$BACK"
assert_eq "$(rows | cut -d' ' -f1 | tr '\n' ' ')" "committed foreign "
exec 5>&-
expect_ok "$CKPTFS" wait "$MNT/dir/open.pt"
lists 0 "$MNT/dir/open.pt"
assert_contains "$(rows)" "committed 4 B"
if [ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ]; then
	mkdir bound
	mount --bind "$MNT/dir" bound
	lists 0 bound
	assert_contains "$(rows)" " bound/done.pt"
	umount bound
fi
daemon=$(daemon_pid)
kill -STOP "$daemon"
lists 1 "$MNT"
assert_contains "$STDERR" "does not answer"
kill -CONT "$daemon"
kill9_and_reaped "$daemon" 10
lists 1 "$MNT"
assert_contains "$STDERR" "is not running"
umount_ckptfs

# Mounted over itself: what is hidden cannot be seen.
mount_ckptfs "$BACK" "$BACK"
lists 1 --all "$BACK"
assert_contains "$STDERR" "what is hidden below $BACK cannot be seen: it lies in $BACK, which a mount covers"
assert_contains "$(rows)" "committed 7 B"
umount_ckptfs "$BACK"
