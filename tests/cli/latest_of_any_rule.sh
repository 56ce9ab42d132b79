#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ls and latest know each checkpoint file, whichever rule claims its name; and say so where they cannot look everywhere.

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs setpriv python3
export PYTHONPATH=$SRC/client/python
cat >"$TEST_TMP/config.json" <<'E2'
{"rules": [{"name": "bin-files", "kind": "file", "match": ["w*.bin"], "done": [["all_closed"]]}]}
E2
mount_ckptfs -o "config=$TEST_TMP/config.json" "$TEST_TMP/back" "$TEST_TMP/mnt"
mkdir "$MNT/hf" "$MNT/own"
head -c 5000 /dev/urandom >"$MNT/hf/pytorch_model.bin"
head -c 5000 /dev/urandom >"$MNT/own/w.bin"
head -c 5000 /dev/urandom >"$MNT/own/notes.txt"
# A pointer has a record as well, and is no checkpoint.
echo w.bin >"$MNT/own/latest"
python3 -c "import ckptfs, sys
with ckptfs.open(sys.argv[1]) as file: file.write(b'newest: w')" "$MNT/own/newest" || die "ckptfs.open"
expect_ok "$CKPTFS" wait "$MNT/own/newest"
for file in hf/pytorch_model.bin own/w.bin; do
	expect_ok "$CKPTFS" wait "$MNT/$file"
done

# known TOP: both are there, and each is the newest of its directory.
known() {
	for file in hf/pytorch_model.bin own/w.bin; do
		expect_ok "$CKPTFS" ls "$1/${file%/*}"
		assert_contains "$OUT" "committed"
		assert_contains "$OUT" "$1/$file"
		expect_ok "$CKPTFS" latest --verify "$1/${file%/*}"
		assert_eq "$OUT" "$1/$file"
	done
	expect_ok "$CKPTFS" ls "$1"
	for file in notes.txt own/latest own/newest; do
		[[ $OUT != *$file* ]] || die "$file is listed: $OUT"
	done
	expect_ok "$CKPTFS" why "$1/own/w.bin"
	assert_contains "$OUT" "own/w.bin: committed"
}

known "$MNT"

# A part of a checkpoint that is being saved is none.
mkdir "$MNT/checkpoint-7"
head -c 5000 /dev/urandom >"$MNT/checkpoint-7/optimizer.pt"
part_is_durable() {
	"$CKPTFS" why "$MNT/checkpoint-7/optimizer.pt" | grep -q ": durable (stored"
}
wait_until 10 part_is_durable
expect_ok "$CKPTFS" ls "$MNT"
assert_contains "$OUT" "$MNT/checkpoint-7"
[[ $OUT != *optimizer.pt* ]] || die "a part of an open checkpoint is listed: $OUT"
# Nor for another user, to whom status does not show it.
chmod 755 "$TEST_TMP"
run setpriv --reuid 12345 --regid 12345 --clear-groups "$CKPTFS" ls "$MNT"
[[ $OUT != *optimizer.pt* ]] || die "a part of an open checkpoint is listed to another user: $OUT"
expect_ok "$CKPTFS" commit "$MNT/checkpoint-7"
expect_ok "$CKPTFS" wait "$MNT/checkpoint-7"

# Somebody who may not look into all of it is not told that there is none.
mkdir "$MNT/closed"
head -c 5000 /dev/urandom >"$MNT/closed/a.pt"
expect_ok "$CKPTFS" wait "$MNT/closed/a.pt"
chmod 700 "$MNT/closed"
mkdir "$BACK/others"
mv "$BACK/closed" "$BACK/others/"
expect_ok "$CKPTFS" umount "$MNT"
chmod 755 "$TEST_TMP" "$BACK"
run setpriv --reuid 12345 --regid 12345 --clear-groups "$CKPTFS" latest "$BACK/others"
assert_eq "$RC" 3 "$OUT"
assert_contains "$OUT" "whether there is one is not known"
run setpriv --reuid 12345 --regid 12345 --clear-groups python3 -c "import ckptfs, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
try:
	print('answer', ckptfs.latest(sys.argv[1]))
except ckptfs.CheckpointError as error:
	print('error', error)" "$BACK/others"
assert_contains "$OUT" "whether there is one is not known"
known "$BACK"
