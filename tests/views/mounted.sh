#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Views in a mount: the same bytes as an export, for stock readers; with the rights of the reader; of
# what is committed, and while it is there; and reasons for what is refused.
# timeout: 120
. "$(dirname "$0")/../lib.sh"
needs_fuse
needs xz

tar -C "$TEST_TMP" -xJf "$SRC/tests/tensors/trees.tar.xz" dcp_fsdp dcp_hugging_face zero_2 torch_nested || die "no trees"
TREE=$TEST_TMP/dcp_fsdp/tree
FILE=model.safetensors

# save DIR: the tree, as DCP ends it.
save() {
	mkdir "$1" || die "mkdir $1"
	echo '{"a": 1}' >"$1/config.json"
	cp "$TREE"/*.distcp "$1" && cp "$TREE/.metadata" "$1/.metadata.tmp" &&
		mv "$1/.metadata.tmp" "$1/.metadata" || die "cannot save $1"
}

mount_ckptfs
save "$MNT/step-1"
expect_ok "$CKPTFS" wait "$MNT/step-1"
VIEW=$MNT/step-1/.view
expect_ok "$CKPTFS" export "$BACK/step-1" "$TEST_TMP/export"
expect_ok cmp "$VIEW/safetensors/$FILE" "$TEST_TMP/export/$FILE"
assert_eq "$(stat -c %s "$VIEW/safetensors/$FILE")" "$(stat -c %s "$TEST_TMP/export/$FILE")" "its size"
assert_eq "$(ls "$VIEW/safetensors" | tr '\n' ' ')" "config.json $FILE why " "what is in it"
expect_ok cmp "$VIEW/safetensors/config.json" "$MNT/step-1/config.json"
assert_eq "$(ls -A "$MNT/step-1")" "$(ls -A "$BACK/step-1" | sed '/^.ckptfs/d')" "a view is listed"
assert_eq "$(stat -c %Y "$VIEW/safetensors/$FILE")" "$(stat -c %Y "$MNT/step-1")" "its time"
expect_ok "$CKPTFS" tensors "$VIEW/dtype=bf16"
assert_contains "$OUT" "8 tensors, 152 B: complete"

# Any part of it, by any call.
"${PY[@]}" - "$VIEW/safetensors,part=all/$FILE" <<'END' || die "reads differ"
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
whole = os.pread(fd, size + 1, 0)
assert len(whole) == size
for _ in range(500):
	at, n = random.randrange(size + 1), random.randrange(size + 1)
	assert os.pread(fd, n, at) == whole[at:at + n], (at, n)
assert mmap.mmap(fd, size, prot=mmap.PROT_READ)[:] == whole
out = os.memfd_create("out")
assert os.sendfile(out, fd, 0, size) == size and os.pread(out, size, 0) == whole
END

# The index of all its tensors.
assert_eq "$(sed 1,4d "$VIEW/index.json")" "$("$CKPTFS" tensors --json "$BACK/step-1" | sed 1,4d)" "the index"

# By a map above the checkpoint: it counts as it is now. And with files of another directory.
echo '{"tensors": [{"from": "model.{n}.weight", "to": "new.{n}", "take": [0, 0, 1]}], "drop": ["*"]}' >"$MNT/turned.json"
mkdir "$MNT/llm"
echo '{"b": 2}' >"$MNT/llm/config.json"
MAPPED=$VIEW/map=turned,assets=llm
expect_ok "$CKPTFS" export "$BACK/step-1/.view/map=turned" "$TEST_TMP/turned"
expect_ok cmp "$MAPPED/$FILE" "$TEST_TMP/turned/$FILE"
expect_fail cmp -s "$MAPPED/$FILE" "$VIEW/safetensors/$FILE"
assert_eq "$(cat "$MAPPED/config.json")" '{"b": 2}' "the file of another directory"
assert_eq "$(ls "$MAPPED" | tr '\n' ' ')" "config.json $FILE why " "what is in it"
sed -i 's/new/old/' "$MNT/turned.json"
is_other() { grep -q old.3 "$MAPPED/$FILE"; }
wait_until 20 is_other
expect_ok "$CKPTFS" export "$MNT/step-1/.view/npy" "$TEST_TMP/npy"
for file in "$TEST_TMP"/npy/*.npy; do
	expect_ok cmp "$file" "$VIEW/npy/${file##*/}"
done
# A view that was listed before a change is listed after it, whatever the kernel remembers.
for n in {1..10}; do
	echo '{"tensors": [{"from": "model.{n}.weight", "to": "'"$n"'.{n}"}], "drop": ["*"]}' >"$MNT/turned.json"
	expect_ok ls "$MAPPED"
done
echo '{"tensors"' >"$MNT/turned.json"
expect_fail ls "$MAPPED"
assert_contains "$(cat "$VIEW/why")" "map=turned,assets=llm: the map turned.json, line "
echo '{"tensors": [{"from": "model.{n}.weight", "to": "{n}"}], "drop": ["*"]}' >"$MNT/turned.json"
run ls "$VIEW/assets=nowhere"
assert_contains "$(cat "$VIEW/why")" "there is no directory nowhere"
run ls "$VIEW/map=turnde"
assert_contains "$(cat "$VIEW/why")" "there is no map turnde.json"

# What is refused, and why.
for spec in prat=model part=modle max=0 nonsense; do
	run ls "$VIEW/$spec"
	assert_contains "$OUT" "Invalid argument"
	assert_contains "$(cat "$VIEW/why")" "$spec: "
done
assert_contains "$(cat "$VIEW/why")" "there are safetensors, npy, dcp"
run sh -c 'echo x >"$1"' sh "$VIEW/safetensors/new"
assert_contains "$OUT" "Read-only file system"
for call in "rm -f" "truncate -s 0" "chmod 600"; do
	# shellcheck disable=SC2086 # words
	expect_fail $call "$VIEW/safetensors/$FILE"
done
expect_fail ls "$VIEW/safetensors/other"
expect_fail ls "$MNT/.view/safetensors/$FILE/x"

# However many views there are: few are kept, and what was looked up is there still.
exec 6<"$VIEW/safetensors/$FILE"
for n in {1..40}; do
	expect_ok ls "$VIEW/part=all,only=*$n*"
done
expect_ok cmp "$VIEW/safetensors/$FILE" "$TEST_TMP/export/$FILE"
expect_ok cmp "$TEST_TMP/export/$FILE" - <&6
exec 6<&-

# Of what is being saved there is none; of what others have written there is.
mkdir "$MNT/step-2"
cp "$TREE"/*.distcp "$MNT/step-2"
expect_fail ls "$MNT/step-2/.view"
expect_ok "$CKPTFS" commit --abandon "$MNT/step-2"
cp -r "$TEST_TMP/torch_nested/tree" "$BACK/foreign"
expect_ok "$CKPTFS" tensors "$MNT/foreign/.view/part=all"
assert_contains "$OUT" ": complete"
cp "$BACK/foreign/all.pt" "$BACK/foreign/twice.pt"
is_anew() { grep -q "choose one by scope=" "$MNT/foreign/.view/part=all/why"; }
wait_until 20 is_anew
expect_ok cat "$MNT/foreign/.view/part=all,scope=twice.pt/$FILE"

# A shape that no file says is sure in what was committed; elsewhere a part may be missing.
mkdir "$MNT/parts" "$MNT/copied"
rank=0
for file in "$TEST_TMP"/dcp_hugging_face/tree/*; do
	RANK=$rank WORLD_SIZE=2 cp "$file" "$MNT/parts"
	cp "$file" "$MNT/copied"
	rank=1
done
for name in parts copied; do
	expect_ok "$CKPTFS" commit "$MNT/$name"
	expect_ok "$CKPTFS" wait "$MNT/$name"
done
assert_contains "$(cat "$MNT/copied/.view/safetensors/why")" "no file says its shape"
cp -r "$TEST_TMP/dcp_hugging_face/tree" "$BACK/others"
expect_ok "$CKPTFS" tensors "$MNT/parts/.view/safetensors"
assert_contains "$OUT" ": complete"
expect_ok cmp "$MNT/parts/.view/safetensors/$FILE" "$MNT/others/.view/shape=inferred/$FILE"
assert_contains "$(cat "$MNT/others/.view/safetensors/why")" "no file says its shape"
rm "$(find "$BACK/parts" -name '*.safetensors' | sort | tail -n 1)" "$BACK/parts/.ckptfs-index.json"
run "$CKPTFS" export "$BACK/parts" "$TEST_TMP/new"
assert_contains "$OUT" "no file says its shape"

# A rank's file is missing: what it lacks is not shown.
cp -r "$TREE" "$BACK/hole"
rm "$BACK/hole/__1_0.distcp"
assert_contains "$(cat "$MNT/hole/.view/safetensors/why")" "hole: __1_0.distcp is missing"

# What is open can be read on, whatever becomes of the unit; and the daemon lives.
exec 7<"$VIEW/safetensors/$FILE"
rm -r "$MNT/step-1"
is_gone() { [ -z "$(find "$BACK" -name 'step-1' -o -name '.ckptfs-trash*')" ]; }
wait_until 30 is_gone
expect_ok cmp "$TEST_TMP/export/$FILE" - <&7
exec 7<&-
expect_fail ls "$VIEW"

# More files than are open at a time.
expect_ok "${PY[@]}" - "$BACK/many" 10000 <<'END'
import json, os, struct, sys
os.mkdir(sys.argv[1])
for n in range(int(sys.argv[2])):
	header = json.dumps({"w%05d" % n: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
	with open(sys.argv[1] + "/a-%05d-of-10000.safetensors" % (n + 1), "wb") as file:
		file.write(struct.pack("<Q", len(header)) + header + bytes([n % 256]))
END
for _ in 1 2; do
	assert_eq "$(tail -c 10000 "$MNT/many/.view/safetensors/$FILE" | cksum)" \
		"$("${PY[@]}" -c 'import sys; sys.stdout.buffer.write(bytes(n % 256 for n in range(10000)))' | cksum)" "many files"
done
run find "/proc/$(daemon_pid)/fd" -lname '*/many/*'
[ "$(wc -l <<<"$OUT")" -le 256 ] || die "too many are open"

# A tensor of more than 4 GiB is an archive of 64 bits in the form of DCP.
expect_ok "${PY[@]}" - "$BACK/large" "$MNT/large" <<'END'
import json, os, struct, sys, zipfile
size = 5 << 30
os.mkdir(sys.argv[1])
header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
	file.write(struct.pack("<Q", len(header)) + header)
	file.truncate(8 + len(header) + size)
	file.seek(-4, os.SEEK_END)
	file.write(b"last")
with zipfile.ZipFile(sys.argv[2] + "/.view/dcp/__0_0.distcp") as archive:
	info = archive.getinfo("archive/data/0")
	assert info.file_size == size, info
	with archive.open("archive/version") as member:
		assert member.read() == b"3\n"
with open(sys.argv[2] + "/.view/dcp/__0_0.distcp", "rb") as file:
	file.seek(info.header_offset + 30 + len(info.filename) + 20 + size - 4)
	assert file.read(4) == b"last"
END
expect_ok "$CKPTFS" tensors "$MNT/large/.view/dcp"
assert_contains "$OUT" "1 tensors, 5.0 GiB: complete"
rm "$BACK/large/model.safetensors"

# With the rights of the reader: names and bytes.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	save "$MNT/step-3"
	expect_ok "$CKPTFS" wait "$MNT/step-3"
	expect_ok as_user 1234 cmp "$MNT/step-3/.view/safetensors/$FILE" "$TEST_TMP/export/$FILE"
	chmod 600 "$BACK"/step-3/__1_0.distcp
	expect_fail as_user 1234 cat "$MNT/step-3/.view/safetensors/$FILE"
	assert_contains "$OUT" "Permission denied"
	expect_ok cat "$MNT/step-3/.view/safetensors/$FILE"
	# A map that only root may read is of use to nobody else, though root has used it.
	cp "$MNT/turned.json" "$MNT/secret.json"
	chmod 600 "$MNT/secret.json"
	expect_ok ls "$MNT/step-3/.view/map=secret"
	expect_fail as_user 1234 ls "$MNT/step-3/.view/map=secret"
	expect_ok as_user 1234 ls "$MNT/step-3/.view/map=turned"
	chmod 700 "$BACK/step-3"
	expect_fail as_user 1234 ls "$MNT/step-3/.view/"
	expect_fail as_user 1234 cat "$MNT/step-3/.view/why"
fi

# Readers of a daemon that is killed get an error, and no hang.
save "$MNT/step-4"
expect_ok "$CKPTFS" wait "$MNT/step-4"
exec 8<"$MNT/step-4/.view/safetensors/$FILE"
kill9_and_reaped "$(daemon_pid)" 20
expect_fail cat <&8
exec 8<&-
expect_ok "$CKPTFS" umount "$MNT"
