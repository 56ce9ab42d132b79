#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 15
# fsck finds what unfinished saves left in a backing, says what it is, and removes that and nothing else; it records
# digests of files that ckptfs did not write, if they are whole; it leaves a backing alone that is mounted.

. "${SRC:?}/tests/cli/verbs.sh"

needs python3 setfattr getfattr
cd "$TEST_TMP" || die "cannot enter"
echo x >probe
setfattr -n user.ckptfs.xxh3 -v x probe 2>/dev/null || skip "no extended attributes in $TEST_TMP"

STAGED=.ckptfs-0123456789abcdef0123456789abcdef
AS=() # words before the command

# fsck STATUS ARGS...: exit status of `ckptfs fsck ARGS`. Sets $STDOUT, $STDERR.
fsck() {
	local status=$1
	shift
	timeout 60 ${AS[@]+"${AS[@]}"} "$CKPTFS" fsck "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of fsck $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(cat "$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

# rows: what was printed, the last line too, blanks made one.
rows() {
	printf '%s\n' "$STDOUT" | tr -s ' '
}

# found EXPRESSION: of each find `f` in $STDOUT as JSON.
found() {
	value "[$1 for f in x['found']]" "$STDOUT"
}

# old FILE...: nobody is writing these.
old() {
	touch -h -d '3 hours ago' "$@"
}

# leave FILE: as a save that did not come to its end.
leave() {
	printf 'part' >"$1"
	touch -d '3 days ago' "$1"
}

# --- what it finds ---

mkdir -p b/run/deep away
leave b/run/$STAGED
leave b/.ckptfs-ffffffffffffffffffffffffffffffff
mkdir -p b/run/.ckptfs-trash-1/x/y
echo 12345 >b/run/.ckptfs-trash-1/x/y/z
old b/run/.ckptfs-trash-1
leave b/run/deep/.ckptfs-trash-ab
# Not quite.
leave b/.ckptfs-0123456789abcdef0123456789abcde
leave b/.ckptfs-0123456789ABCDEF0123456789ABCDEF
leave b/.ckptfs-trash-
leave b/ckptfs-0123456789abcdef0123456789abcdef
mkdir b/.ckptfs-00000000000000000000000000000000
ln -s ../away b/.ckptfs-11111111111111111111111111111111
ln -s ../away b/.ckptfs-trash-link
mkfifo b/.ckptfs-22222222222222222222222222222222
old b/.ckptfs-0000* b/.ckptfs-1111* b/.ckptfs-2222* b/.ckptfs-trash-link
# Not to be reached.
leave away/$STAGED
leave away/a.pt
ln -s ../away b/run/link
ln -s ../../away/a.pt b/run/link.pt
# Nothing of ours.
echo '{}' >b/run/model.json
: >b/run/new.pt.tmp
: >b/run/.tmpAbCdEf
printf 'tensor\n' >b/run/known.pt
old b/run/known.pt
setfattr -n user.ckptfs.xxh3 -v "c087d461a3bd32b3f1ffab0cb18dcee3 7 $(date -r b/run/known.pt +%s%N)" b/run/known.pt
printf 'tensor\n' >b/run/foreign.pt
old b/run/foreign.pt

before=$(listing b)
for option in "" --dry-run; do
	# shellcheck disable=SC2086 # none or one
	fsck 1 $option b
	assert_eq "$(rows)" "unfinished 0 B 3 h would remove .ckptfs-00000000000000000000000000000000
unknown 4 B 3 d left .ckptfs-0123456789ABCDEF0123456789ABCDEF
unknown 4 B 3 d left .ckptfs-0123456789abcdef0123456789abcde
unfinished 7 B 3 h would remove .ckptfs-11111111111111111111111111111111
unknown 0 B 3 h left .ckptfs-22222222222222222222222222222222
unfinished 4 B 3 d would remove .ckptfs-ffffffffffffffffffffffffffffffff
unknown 4 B 3 d left .ckptfs-trash-
unknown 7 B 3 h left .ckptfs-trash-link
unfinished 4 B 3 d would remove run/$STAGED
trash 6 B 3 h would remove run/.ckptfs-trash-1
trash 4 B 3 d would remove run/deep/.ckptfs-trash-ab
foreign 7 B 3 h would adopt run/foreign.pt
21 names looked at: 4 left by saves that did not end, 2 trash (25 B), 1 without a digest. Nothing was changed"
	assert_eq "$(listing b)" "$before" "what a report changed"
done
assert_eq "$(grep -c "begins like a name of ckptfs, but is none that this version makes" <<<"$STDERR")" 5
fsck 1 --json b
assert_eq "$(value 'x["ok"], x["mode"], x["names"], x["bytes_left"], x["backing"]' "$STDOUT")" \
	"(False, 'report', 21, 25, '$TEST_TMP/b')"
assert_eq "$(found '(f["kind"], f["action"], f["size"], f["path"], f["xxh3"])' |
	python3 -c 'print(*eval(input())[-4:], sep="\n")')" \
	"('unfinished', 'would remove', 4, 'run/$STAGED', None)
('trash', 'would remove', 6, 'run/.ckptfs-trash-1', None)
('trash', 'would remove', 4, 'run/deep/.ckptfs-trash-ab', None)
('foreign', 'would adopt', 7, 'run/foreign.pt', None)"
assert_eq "$(found 'round(f["age_s"] / 86400)' | tr -d '[], ')" 033003303030
assert_eq "$(value 'all((f["message"] is None) == (f["kind"] != "unknown") for f in x["found"])' "$STDOUT")" True

# --- what it removes ---

fsck 1 --discard b
assert_eq "$(rows | grep -v ^unknown)" "unfinished 0 B 3 h removed .ckptfs-00000000000000000000000000000000
unfinished 7 B 3 h removed .ckptfs-11111111111111111111111111111111
unfinished 4 B 3 d removed .ckptfs-ffffffffffffffffffffffffffffffff
unfinished 4 B 3 d removed run/$STAGED
trash 6 B 3 h removed run/.ckptfs-trash-1
trash 4 B 3 d removed run/deep/.ckptfs-trash-ab
21 names looked at: 6 removed (25 B)"
assert_eq "$(listing b)" "$(grep -v -e ' *ffff' -e '.ckptfs-0000000' -e '.ckptfs-1111111' -e "run/$STAGED" -e 'run/.ckptfs-trash-1' -e 'run/deep/.ckptfs-trash-ab' \
	<<<"$before")" "what --discard changed"
assert_eq "$(cat away/$STAGED away/a.pt)" partpart "what lies outside"
rm -r b/.ckptfs-*
fsck 0 --discard b
assert_eq "$(rows)" "10 names looked at: 0 removed (0 B)"
fsck 0 b
assert_eq "$(rows)" "foreign 7 B 3 h would adopt run/foreign.pt
10 names looked at: 0 left by saves that did not end, 0 trash (0 B), 1 without a digest. Nothing was changed"
assert_eq "$STDERR" ""
fsck 0 --json --discard b
assert_eq "$(value 'x["ok"], x["mode"], x["found"]' "$STDOUT")" "(True, 'discard', [])"

# --- what it adopts ---

python3 - <<'END'
import json, struct, zipfile
with zipfile.ZipFile("b/run/zip.pt", "w") as z:
	z.writestr("data", b"x" * 100000)
data = open("b/run/zip.pt", "rb").read()
open("b/run/cut.pt", "wb").write(data[:50000])
header = json.dumps({"t": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
open("b/run/whole.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + b"1234")
open("b/run/cut.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + b"123")
open("b/run/big.ckpt", "wb").write(bytes((i * 31 + (i >> 8) * 17 + (i >> 16)) & 255 for i in range((8 << 20) + 1)))
open(b"b/run/\xff\n\x1b[31m.pth", "wb").write(b"x")
END
old b/run/*.safetensors b/run/*.ckpt b/run/*.pth b/run/cut.pt b/run/zip.pt
: >b/run/now.keras
leave b/run/$STAGED
fsck 1 --adopt b
odd=$'\xff'
age=$(rows | sed -n 's/^foreign 0 B \(.* s\) left run.now.*/\1/p')
assert_eq "$(rows)" "unfinished 4 B 3 d left run/$STAGED
foreign 8.0 MiB 3 h adopted run/big.ckpt
foreign 48.8 KiB 3 h left run/cut.pt
foreign $(stat -c %s b/run/cut.safetensors) B 3 h left run/cut.safetensors
foreign 7 B 3 h adopted run/foreign.pt
foreign 0 B $age left run/now.keras
foreign $(stat -c %s b/run/whole.safetensors) B 3 h adopted run/whole.safetensors
foreign 97.8 KiB 3 h adopted run/zip.pt
foreign 1 B 3 h adopted run/$odd??[31m.pth
18 names looked at: 1 left by saves that did not end, 0 trash (4 B), 8 without a digest, 5 of them adopted"
assert_contains "$STDERR" "run/cut.pt is not a whole file. "
assert_contains "$STDERR" "run/cut.safetensors is not a whole file. "
assert_contains "$STDERR" "no digest was recorded of run/now.keras: it was written to within the last minute"
assert_contains "$STDERR" "nothing records for which names the saves .ckptfs-* (1) were, or that they are whole, so none of these was adopted."
assert_contains "$STDERR" "ckptfs fsck --discard $TEST_TMP/b"
assert_eq "$(getfattr --only-values -n user.ckptfs.xxh3 b/run/big.ckpt 2>/dev/null)" \
	"dec73687d76829519b7c4723d67fbe52 8388609 $(date -r b/run/big.ckpt +%s%N)"
[ -f b/run/$STAGED ] || die "a staging file went"
rm b/run/$STAGED b/run/cut.* b/run/now.keras
expect_ok "$CKPTFS" verify b
printf 'x' >b/run/$'\xfe'.pth
old b/run/$'\xfe'.pth
fsck 0 --adopt --json b
assert_eq "$(found '(f["path_hex"], f["action"], len(f["xxh3"]))')" "[('$(printf 'run/\xfe.pth' | od -An -tx1 | tr -d ' \n')', 'adopted', 32)]"
fsck 0 --adopt b
assert_eq "$(rows)" "15 names looked at: 0 left by saves that did not end, 0 trash (0 B), 0 without a digest, 0 of them adopted"

# Whole, and only without its name: said, kept, and removed when that is asked for.
cp -a b/run/foreign.pt b/$STAGED
fsck 1 b
assert_eq "$(rows | head -n 1)" "unpublished 7 B 3 h would remove $STAGED"
assert_contains "$STDERR" "$STAGED is whole, but was not given its name before its daemon ended"
fsck 1 --adopt b
assert_contains "$STDERR" "so none of these was adopted"
[ -f b/$STAGED ] || die "removed by --adopt"
fsck 0 --discard b
[ ! -e b/$STAGED ] || die "left by --discard"

# --- a directory with a commit file: what it holds is a part of it, what was left in it is not ---

mkdir -p d/step-1/sub
printf 'x' >d/step-1/sub/model.pt
python3 "$SRC/tests/cli/commit.py" d/step-1
cp d/step-1/.ckptfs-commit.json d/step-1/.ckptfs-commit.next.json
fsck 0 d
assert_eq "$(rows)" "5 names looked at: 0 left by saves that did not end, 0 trash (0 B), 0 without a digest. Nothing was changed"
leave d/step-1/sub/$STAGED
fsck 0 --discard d
assert_contains "$(rows)" "removed step-1/sub/$STAGED"
expect_ok "$CKPTFS" verify d

# --- deep trees, longer than any path may be ---

python3 - <<'END'
import os
os.chdir("b")
for i in range(300):
	os.mkdir("d" * 20)
	os.chdir("d" * 20)
open(".ckptfs-0123456789abcdef0123456789abcdef", "w").close()
END
fsck 0 --discard b
assert_contains "$STDOUT" "316 names looked at: 1 removed (0 B)"
rm -r b/dddd*

# --- the records of ckptfs ---

expect_ok "$CKPTFS" init b
leave b/.ckptfs/$STAGED # nothing of users is there
fsck 0 b
rm b/.ckptfs/$STAGED
leave b/$STAGED
cp b/.ckptfs/version.json good
echo '{"ckptfs": 99}' >b/.ckptfs/version.json
fsck 1 --discard b
assert_contains "$STDERR" "has format 99, this ckptfs knows up to"
echo rubbish >b/.ckptfs/version.json
fsck 1 --discard --json b
assert_contains "$STDERR" "version.json is damaged: not JSON"
assert_eq "$(value 'x["ok"], x["backing"], "is damaged" in x["message"]' "$STDOUT")" "(False, 'b', True)"
mv good b/.ckptfs/version.json
mv b/.ckptfs records
ln -s ../records b/.ckptfs
fsck 1 --discard b
assert_contains "$STDERR" "is a symbolic link"
rm b/.ckptfs
mv records b/.ckptfs
fsck 1 --discard b/run
assert_contains "$STDERR" "lies inside $TEST_TMP/b, which is the backing"
fsck 1 missing
assert_contains "$STDERR" "does not exist"
fsck 1 probe
assert_contains "$STDERR" "is not a directory"
[ -f b/$STAGED ] || die "removed after all"

# --- usage ---

fsck 2
assert_contains "$STDERR" "give one backing"
fsck 2 b b
fsck 2 --adopt --discard b
assert_contains "$STDERR" "give one of --adopt, --discard and --dry-run"
fsck 2 --bogus b
assert_contains "$STDERR" "usage: ckptfs fsck [--adopt|--discard|--dry-run] [-o OPTS] [--json] BACKING"
fsck 0 --help
assert_contains "$STDOUT" "usage: ckptfs fsck"

# --- on a terminal it tells how far it is; and what is written to meanwhile is not adopted ---

mkdir -p long/run
if slow_reads long slow; then
	expect_ok "$CKPTFS" init slow
	truncate -s 64M long/run/long.pt
	old long/run/long.pt
	watched slow/run/long.pt "$CKPTFS" fsck --adopt slow
	assert_eq "${OUT##*$'\n'}" 1 "$OUT"
	assert_contains "$OUT" "run/long.pt: it was written to while it was read"
	assert_contains "$OUT" $'\e[K'"run/long.pt: "
	assert_contains "$OUT" " % of 67 MB"
	[[ $OUT != *"adopted       run/long.pt"* ]] || die "adopted what was changed"
fi

# --- other users, other filesystems ---

if [ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ]; then
	# Another user's backing, for one who may not do everything.
	needs setpriv
	AS=(setpriv "--bounding-set=-dac_override,-dac_read_search,-fowner" --)
	mkdir b/closed
	for file in secret theirs; do
		echo x >b/$file.pt
		old b/$file.pt
	done
	chmod 700 b/closed
	chmod 600 b/$STAGED b/secret.pt
	chown 1001 b b/$STAGED b/secret.pt b/theirs.pt b/closed
	fsck 1 b
	assert_contains "$STDERR" "cannot look at closed: Permission denied. What is there was not checked"
	assert_contains "$STDERR" "cannot look at secret.pt: Permission denied"
	assert_contains "$(rows)" "unfinished 4 B 3 d would remove $STAGED"
	fsck 1 --discard b
	assert_contains "$STDERR" "cannot remove $STAGED: Permission denied. What is left of it is hidden"
	assert_contains "$(rows)" "unfinished 4 B 3 d failed $STAGED"
	fsck 1 --adopt b
	assert_contains "$STDERR" "no digest was recorded of theirs.pt: Permission denied"
	AS=()
	chown 0 b b/$STAGED
	rmdir b/closed
	rm b/secret.pt b/theirs.pt
	mkdir -p b/other b/same b/.ckptfs-trash-m/in
	mount -t tmpfs tmpfs b/other
	mount --bind away b/same
	mount -t tmpfs tmpfs b/.ckptfs-trash-m/in
	leave b/other/$STAGED
	echo x >b/.ckptfs-trash-m/in/file
	fsck 1 --discard b
	assert_contains "$(rows)" "removed $STAGED"
	assert_contains "$(rows)" "mount left other"
	assert_contains "$(rows)" "mount left same"
	assert_contains "$STDERR" "cannot remove .ckptfs-trash-m: Invalid cross-device link"
	assert_eq "$(cat b/other/$STAGED away/$STAGED b/.ckptfs-trash-m/in/file)" "partpartx" "what is mounted there"
	umount b/other b/same b/.ckptfs-trash-m/in
	fsck 0 --discard b
	rmdir b/other b/same
	mkdir none
	if mount -t ramfs ramfs none; then
		fsck 1 --adopt none
		assert_contains "$STDERR" "is on a filesystem without extended attributes, so no digest can be recorded"
		fsck 0 none
		umount none
	fi
fi

# --- not while it is mounted ---

# mounted PHRASE DIR: refused for it, and nothing changed.
mounted() {
	local mode
	for mode in --dry-run --discard --adopt; do
		fsck 1 $mode "$2"
		assert_contains "$STDERR" "$1"
		assert_eq "$STDOUT" ""
	done
}

needs_fuse
mount_ckptfs "$TEST_TMP/back"
mkdir "$BACK/sub"
leave "$BACK/sub/$STAGED"
mounted "$BACK is mounted at $MNT by a live ckptfs, whose unfinished saves look like leftovers" "$BACK"
mounted "lies inside the ckptfs mount $MNT" "$MNT"
mounted "lies inside the ckptfs mount $MNT" "$MNT/sub"
daemon=$(daemon_pid)
kill -STOP "$daemon"
mounted "is mounted at $MNT by a live ckptfs" "$BACK"
kill -CONT "$daemon"
if [ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ]; then
	mkdir bound
	mount --bind "$BACK" bound
	mounted "$TEST_TMP/bound is mounted at $MNT by a live ckptfs" bound
	umount bound
	mount -t tmpfs tmpfs "$MNT"
	mounted "is mounted at $MNT by a live ckptfs" "$BACK"
	umount "$MNT"
	expect_ok "$CKPTFS" status "$MNT"
fi
umount_ckptfs
mkdir outer
mv back outer
mount_ckptfs "$TEST_TMP/outer/back"
mounted "outer is mounted at $MNT by a live ckptfs" outer
umount_ckptfs
mount_ckptfs "$BACK" "$BACK"
mounted "$BACK is mounted at $BACK by a live ckptfs" "$BACK"
mounted "$BACK/sub is mounted at $BACK by a live ckptfs" "$BACK/sub"
kill9_and_reaped "$(daemon_pid)" 10
mounted "the daemon of $BACK is not running" "$BACK"
umount_ckptfs

# --- what a killed daemon leaves ---

rm "$BACK/sub/$STAGED"
mount_ckptfs "$BACK" "$TEST_TMP/mnt"
echo old >"$MNT/sub/a.pt"
"$CKPTFS" wait "$MNT/sub/a.pt" || die "not saved"
exec 9>"$MNT/sub/a.pt"
echo new >&9
kill9_and_reaped "$(daemon_pid)" 10
exec 9>&-
fsck 1 "$BACK" # dead, but mounted still
assert_contains "$(rows)" "would remove sub/.ckptfs-"
fsck 0 --discard "$BACK"
assert_contains "$(rows)" "removed sub/.ckptfs-"
assert_eq "$(find "$BACK" -name '.ckptfs-*')" "" "what is left"
umount_ckptfs
mount_ckptfs "$BACK" "$TEST_TMP/mnt"
assert_eq "$(cat "$MNT/sub/a.pt")" old
umount_ckptfs
expect_ok "$CKPTFS" verify "$BACK/sub/a.pt"
