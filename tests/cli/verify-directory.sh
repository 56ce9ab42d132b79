#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 15
# verify tells of a directory that has a commit file whether every file that it lists is there with its content, and
# takes nothing that the commit file says on trust.

. "${SRC:?}/tests/cli/verbs.sh"

needs python3
cd "$TEST_TMP" || die "cannot enter"

# unit DIR [KEY=VALUE]...: give it a commit file of all that is in it.
unit() {
	python3 "$SRC/tests/cli/commit.py" "$@" || die "no commit file for $1"
}

# verifies STATUS ARGS...: exit status of `ckptfs verify ARGS`. Sets $STDOUT (blanks made one), $STDERR.
verifies() {
	local status=$1
	shift
	"$CKPTFS" verify "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of verify $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(tr -s ' ' <"$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

# fresh: a good checkpoint, u.
fresh() {
	rm -rf u
	mkdir -p u/sub/empty u/odd
	printf 'model' >u/model.pt
	printf 'meta' >u/.metadata
	: >u/sub/nothing
	printf 'x' >u/sub/x
	ln -s ../../away/secret u/sub/link
	printf 'y' >u/odd/$'\xff\n"'
	touch -d '1 hour ago' u/model.pt u/sub/x
	unit u
}

# spoiled ROW WORDS: of u only this is wrong, and that is said of it.
spoiled() {
	verifies 1 u
	assert_eq "$(head -n 1 <<<"$STDOUT")" "$1"
	assert_contains "$STDERR" "$2"
	assert_contains "$STDOUT" "NOT WHOLE 11 u (7 listed)"
	assert_contains "$STDOUT" "7 files: 6 ok, 1 ${1%% [0-9]*}"
	fresh
}

# --- as it was committed ---

fresh
verifies 0 u
assert_eq "$STDOUT" "ok 11 u (7 listed)
7 files: 7 ok"
assert_eq "$STDERR" ""
verifies 0 u/
assert_contains "$STDOUT" "ok 11 u/ (7 listed)"
verifies 0 --json u
assert_eq "$(value 'x["ok"], x["files"], [(u["path"], u["ok"], u["sequence"], u["entries"], u["size"], u["unlisted"], u["pending"]) for u in x["units"]]' \
	"$(cat .stdout)")" "(True, [], [('u', True, 1, 7, 11, 0, False)])"
ln -s u named
verifies 0 named

# Late files are no fault, of whatever kind.
echo late >u/late.pt
mkdir -p u/new/dir
echo late >u/new/file
ln -s /nowhere u/dangling
mkfifo u/fifo
echo staged >u/.ckptfs-0123456789abcdef0123456789abcdef
verifies 0 u
assert_eq "$STDOUT" "unlisted 0 u/dangling
unlisted 0 u/fifo
unlisted 5 u/late.pt
unlisted 5 u/new/file
ok 11 u (7 listed)
11 files: 7 ok, 4 unlisted"
assert_eq "$STDERR" ""
verifies 0 --json u
assert_eq "$(value '[f["state"] for f in x["files"]], x["units"][0]["unlisted"]' "$(cat .stdout)")" \
	"(['unlisted', 'unlisted', 'unlisted', 'unlisted'], 4)"

# --- what may be wrong with a file ---

fresh
rm u/model.pt
spoiled "MISSING 0 u/model.pt" "u/model.pt is missing: the commit file of u lists it"
rmdir u/sub/empty
spoiled "MISSING 0 u/sub/empty" "u/sub/empty is missing"
echo more >>u/model.pt
spoiled "changed since 10 u/model.pt" "it has 10 bytes now and had 5"
touch -r u/model.pt time
printf 'M' | dd of=u/model.pt conv=notrunc status=none
touch -r time u/model.pt
spoiled "DAMAGED 5 u/model.pt" "u/model.pt is damaged: its content has the digest"
printf 'M' | dd of=u/model.pt conv=notrunc status=none
touch -d '3 hours' u/model.pt
spoiled "changed since 5 u/model.pt" "it was last written 3 h after the commit, its content has the digest"
ln -sf ../other u/sub/link
spoiled "changed since 0 u/sub/link" "it is a symbolic link to another place"
rm u/sub/link
echo x >u/sub/link
spoiled "changed since 2 u/sub/link" "it is another kind of file now"
rm u/model.pt
ln -s sub/x u/model.pt
spoiled "changed since 0 u/model.pt" "it is another kind of file now"
rm u/model.pt
mkdir u/model.pt
spoiled "changed since 0 u/model.pt" "it is another kind of file now"
rm u/model.pt
mkfifo u/model.pt
spoiled "changed since 0 u/model.pt" "it is another kind of file now"

# No link is followed: not the name itself, and none on the way.
mkdir -p away
mv u/odd away/odd
ln -s ../away/odd u/odd
verifies 1 u
assert_contains "$STDOUT" "MISSING 0 u/odd/"
assert_contains "$STDOUT" "unlisted 0 u/odd"
fresh

# --- what may be wrong with the commit file ---

# refuses PHRASE: nothing vouches for u, so its files are not looked at.
refuses() {
	verifies 1 u
	assert_contains "$STDERR" "$1"
	[ "$(wc -l <<<"$STDOUT")" = 1 ] || die "more than one row: $STDOUT"
	assert_contains "$STDOUT" " u/.ckptfs-commit.json"
	fresh
}

sed -i 's/"size": 5/"size": 6/' u/.ckptfs-commit.json
refuses "the commit file u/.ckptfs-commit.json is damaged (line 23: its digest is another)"
truncate -s -5 u/.ckptfs-commit.json
refuses "it is cut off"
: >u/.ckptfs-commit.json
refuses "(line 1: it is cut off)"
unit u version=2
refuses "has format 2, this ckptfs knows up to 1"
mv u/.ckptfs-commit.json away
ln -s ../away/.ckptfs-commit.json u/.ckptfs-commit.json
refuses "cannot read the commit file u/.ckptfs-commit.json: Too many levels of symbolic links"
mkdir d
rm u/.ckptfs-commit.json
mv d u/.ckptfs-commit.json
refuses "cannot read the commit file u/.ckptfs-commit.json: Is a directory"
verifies 1 --json u/missing u
assert_eq "$(value '[f["state"] for f in x["files"]], len(x["units"])' "$(cat .stdout)")" "(['unreadable'], 1)"
python3 - <<'END2'
import os, sys
sys.path.insert(0, os.environ["SRC"] + "/tests/cli")
import commit
file = {"size": 4, "xxh3": "0" * 32, "node": "n", "rank": 0}
for name, path in ("up", b"../away/secret"), ("root", b"/etc/passwd"), ("dot", b"./model.pt"), ("own", b".ckptfs-x"):
	os.mkdir(name)
	commit.write(name, entries=[(path, file)])
os.mkdir("twice")
commit.write("twice", entries=[(b"a", file), (b"a", file)])
END2
for bad in up root dot own twice; do
	verifies 1 $bad
	assert_contains "$STDERR" "the commit file $bad/.ckptfs-commit.json is damaged (line 1"
	assert_contains "$STDERR" ": a path "
done

# --- while a change is pending ---

# before, after: u and a later state of it; what is in u may be any mixture.
fresh
cp -a u later
printf 'MODEL!' >later/model.pt
rm later/sub/x
echo more >later/more.pt
unit later name=.ckptfs-commit.next.json
cp later/.ckptfs-commit.next.json u
verifies 0 u
assert_eq "$STDOUT" "ok 11 u (8 listed)
8 files: 8 ok"
verifies 0 --json u
assert_eq "$(value 'x["units"][0]["pending"]' "$(cat .stdout)")" True
cp later/model.pt u
verifies 0 u
cp later/more.pt u
verifies 0 u
rm u/sub/x
verifies 0 u
printf 'MODEL?' >u/model.pt
touch -d '1 hour ago' u/model.pt
verifies 1 u
assert_contains "$STDOUT" "DAMAGED 6 u/model.pt"
printf 'MODE' >u/model.pt
verifies 1 u
assert_contains "$STDERR" "u/model.pt was changed since its checkpoint was committed: it has 4 bytes now and had 5"
rm u/model.pt
verifies 1 u
assert_contains "$STDOUT" "MISSING 0 u/model.pt"
fresh
cp later/.ckptfs-commit.next.json u
truncate -s -5 u/.ckptfs-commit.next.json
verifies 0 u
assert_contains "$STDERR" "a change to u was cut off before it was committed"
unit u name=.ckptfs-commit.next.json version=2
verifies 1 u
assert_contains "$STDERR" "u/.ckptfs-commit.next.json has format 2"

# --- files of more than one piece, and such that all threads read ---

fresh
head -c 8388609 /dev/urandom >u/two
truncate -s 80M u/large
printf 'end' >>u/large
unit u
verifies 0 u
printf 'E' | dd of=u/large bs=1 seek=83886080 conv=notrunc status=none
touch -d '1 hour ago' u/large
verifies 1 u
assert_contains "$STDOUT" "DAMAGED 83886083 u/large"

# --- a part of one: by the same commit file ---

fresh
real=$(realpath u)
verifies 0 u/model.pt
assert_eq "$STDOUT" "ok 5 $real/model.pt (1 listed)"
verifies 0 u/sub
assert_eq "$STDOUT" "ok 1 $real/sub (4 listed)
4 files: 4 ok"
printf 'M' | dd of=u/model.pt conv=notrunc status=none
touch -d '1 hour ago' u/model.pt
verifies 0 u/sub
verifies 1 u/model.pt
assert_contains "$STDOUT" "DAMAGED 5 $real/model.pt"
echo late >u/late.pt
verifies 1 u/late.pt
assert_contains "$STDERR" "u/late.pt has no digest recorded"
echo late >u/sub/late
verifies 0 u/sub
assert_contains "$STDOUT" "unlisted 5 $real/sub/late"
echo garbage >u/.ckptfs-commit.json
verifies 1 u/sub
assert_contains "$STDERR" "the commit file $real/.ckptfs-commit.json is damaged"

# --- directories above: each checkpoint in it; what is inside of one is a part of it ---

rm -rf tree
fresh
mkdir -p tree/run
cp -a u tree/run/step-1
cp -a u tree/run/step-2
cp -a u tree/run/step-2/inner
rm tree/run/step-2/inner/model.pt
verifies 0 tree
assert_contains "$STDOUT" "ok 11 tree/run/step-1 (7 listed)"
assert_contains "$STDOUT" "unlisted 4 tree/run/step-2/inner/.metadata"
rm -r tree/run/step-2/inner tree/run/step-1/model.pt
verifies 1 tree
assert_eq "$STDOUT" "MISSING 0 tree/run/step-1/model.pt
NOT WHOLE 11 tree/run/step-1 (7 listed)
ok 11 tree/run/step-2 (7 listed)
14 files: 13 ok, 1 MISSING"
if setfattr -n user.probe -v x tree 2>/dev/null; then
	printf 'tensor\n' >tree/single.pt
	setfattr -n user.ckptfs.xxh3 -v "c087d461a3bd32b3f1ffab0cb18dcee3 7 $(date -r tree/single.pt +%s%N)" tree/single.pt
	verifies 1 tree
	assert_contains "$STDOUT" "ok 7 tree/single.pt"
	assert_contains "$STDOUT" "15 files: 14 ok, 1 MISSING"
fi

# --- for one who may not read all ---

if [ "$(id -u)" = 0 ]; then
	needs setpriv
	fresh
	chmod 700 u/sub
	chmod 600 u/model.pt
	chown -R 1001 u
	setpriv --bounding-set=-dac_override,-dac_read_search "$CKPTFS" verify u >.stdout 2>.stderr
	assert_eq $? 1 "exit status of verify as another user"
	assert_contains "$(tr -s ' ' <.stdout)" "unreadable 5 u/model.pt"
	assert_contains "$(cat .stderr)" "cannot verify u/sub/x: Permission denied"
	assert_contains "$(tr -s ' ' <.stdout)" "NOT WHOLE 11 u (7 listed)"
fi

# --- on a terminal it tells how far it is ---

rm -rf u
mkdir u
truncate -s 64M u/long
python3 - <<'END2'
import os, sys
sys.path.insert(0, os.environ["SRC"] + "/tests/cli")
import commit
commit.write("u", entries=[(b"long", {"size": 64 << 20, "xxh3": "0" * 32, "node": "n", "rank": 0})])
END2
if slow_reads u slow; then
	watched /dev/null "$CKPTFS" verify slow
	assert_eq "${OUT##*$'\n'}" 1 "$OUT"
	assert_contains "$OUT" "DAMAGED"
	assert_contains "$OUT" $'\e[K'"slow: "
	assert_contains "$OUT" " % of 67 MB, "
fi
