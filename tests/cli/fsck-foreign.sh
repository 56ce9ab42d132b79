#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checkpoints that were there before ckptfs: ls and latest show them as foreign, verify says that nothing vouches for them,
# and fsck --adopt gives a commit file to those that prove to be whole; to others only where they are named.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs python3
BACK=$TEST_TMP/back
MNT=$TEST_TMP/mnt
mkdir -p "$BACK" "$MNT"

# fsck STATUS ARGS...: sets $STDOUT and $STDERR.
fsck() {
	local status=$1
	shift
	timeout 60 "$CKPTFS" fsck "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of fsck $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(tr -s ' ' <"$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

expect_ok python3 - "$BACK" <<'END'
import json, os, sys
sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))
from forms import Storage, dumps, metadata, tensor, zip_of
os.chdir(sys.argv[1])

def put(path, content=b"x" * 1000):
	os.makedirs(os.path.dirname(path), exist_ok=True)
	with open(path, "wb") as file:
		file.write(content)

def tensors(size):
	header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
	return len(header).to_bytes(8, "little") + header + bytes(size)

def dcp(unit, ranks=2, missing=0):
	item = zip_of(*dumps(tensor(Storage("0", "FloatStorage", bytes(16)), [4])))
	for rank in range(ranks - missing):
		put(unit + "/__%d_0.distcp" % rank, item)
	chunks = [((4 * rank,), (4,)) for rank in range(ranks)]
	items = {("w", (4 * rank,)): ("__%d_0.distcp" % rank, 0, len(item)) for rank in range(ranks)}
	put(unit + "/.metadata", metadata({"w": ((4 * ranks,), chunks)}, items))

dcp("run/step-9")
dcp("run/step-10")
os.symlink("step-10", "run/newest")
os.mkdir("run/step-10/empty")
dcp("run/step-11", missing=1)
put("run/step-12/__0_0.distcp")
dcp("mega/iter_0000005")
put("mega/iter_0000005/metadata.json", b"{}")
dcp("mega/iter_0000006")
for i in 1, 2:
	put("export/model-0000%d-of-00002.safetensors" % i, tensors(100))
put("export/model.safetensors.index.json", json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors",
	"b": "model-00002-of-00002.safetensors"}}).encode())
put("torn/model-00001-of-00001.safetensors", tensors(100)[:-1])
put("torn/model.safetensors.index.json", b'{"weight_map": {"a": "model-00001-of-00001.safetensors"}}')
put("bad/model.safetensors.index.json", b'{"weight_map": ')
put("ds/global_step1/zero_pp_rank_0_mp_rank_00_optim_states.pt")
put("hf/checkpoint-5/model.safetensors", tensors(50))
put("hf/checkpoint-5/trainer_state.json", b"{}")
put("plain/notes.txt")
END
find "$BACK" -exec touch -h -d '2020-01-01' {} +
find "$BACK/run/step-10" -exec touch -h -d '2020-01-02' {} +
dcp_new=$BACK/run/step-12/__0_0.distcp
sep=
before=$(find "$BACK" | sort)

expect_ok "$CKPTFS" ls --json "$BACK"
assert_eq "$(value 'sorted((u["path"].split("/back/")[1], u["state"]) for u in x["units"])' "$OUT")" \
	"[$(for unit in bad ds/global_step1 export hf/checkpoint-5 mega/iter_0000005 mega/iter_0000006 run/step-10 \
		run/step-11 run/step-12 run/step-9 torn; do printf "%s('%s', 'foreign')" "$sep" "$unit"; sep=", "; done)]"
expect_ok "$CKPTFS" latest "$BACK/run"
assert_contains "$OUT" "$BACK/run/step-10"

fsck 1 --dry-run "$BACK"
assert_eq "$(find "$BACK" | sort)" "$before" "what --dry-run changed"
for unit in run/step-9 run/step-10 mega/iter_0000005 export; do
	assert_contains "$STDOUT" "would adopt $unit"
done
for unit in run/step-11 run/step-12 mega/iter_0000006 torn bad ds/global_step1 hf/checkpoint-5; do
	assert_contains "$STDOUT" "left $unit"
done
assert_contains "$STDERR" "run/step-11, a checkpoint (torchtitan) that ckptfs did not write, was not adopted: w: hole: __1_0.distcp is missing"
assert_contains "$STDERR" "run/step-12, a checkpoint (torchtitan) that ckptfs did not write, was not adopted: it has no .metadata"
assert_contains "$STDERR" "nothing in it tells whether all of it was written"

fsck 1 --adopt "$BACK"
for unit in run/step-9 run/step-10 mega/iter_0000005 export; do
	assert_contains "$STDOUT" "adopted $unit"
	expect_ok "$CKPTFS" verify "$BACK/$unit"
done
assert_eq "$(find "$BACK" -name .ckptfs-commit.json | wc -l)" 4 "commit files"
assert_eq "$(find "$BACK" -name '.ckptfs-*' ! -name .ckptfs-commit.json)" "" "hidden files left"
expect_ok "$CKPTFS" latest "$BACK/run"
assert_eq "$OUT" "$BACK/run/step-10"
assert_eq "$(value '[f["path"] for f in x["files"]], x["done"], x["sequence"]' "$(cat "$BACK/run/step-10/.ckptfs-commit.json")")" \
	"(['.metadata', '__0_0.distcp', '__1_0.distcp', 'empty'], 'adopted', 0)"

# Somebody vouches for one; of what is torn that is not enough, nor of what was written just now.
fsck 1 --adopt "$BACK" "$BACK/hf/checkpoint-5" "$BACK/torn" "$BACK/plain" "$BACK/ds/global_step1"
assert_contains "$STDOUT" "adopted hf/checkpoint-5"
assert_contains "$STDOUT" "adopted ds/global_step1"
assert_contains "$STDOUT" "left torn"
assert_contains "$STDERR" "$BACK/plain is no checkpoint of many files that could be adopted"
expect_ok "$CKPTFS" verify "$BACK/hf/checkpoint-5"
touch "$dcp_new"
fsck 1 --adopt "$BACK" "$BACK/run/step-12"
assert_contains "$STDERR" "it was written to within the last minute"

# What ckptfs saves is newer than all of them.
mount_ckptfs -o quiet_s=3600 "$BACK" "$MNT"
expect_ok cat "$MNT/run/step-9/__0_0.distcp"
mkdir "$MNT/run/step-8"
echo x >"$MNT/run/step-8/__0_0.distcp"
expect_ok "$CKPTFS" ls --json "$MNT/run"
assert_eq "$(value '[u["state"] for u in x["units"] if u["path"].endswith("step-8")]' "$OUT")" "['open']"
echo x >"$MNT/run/step-8/.metadata.tmp"
mv "$MNT/run/step-8/.metadata.tmp" "$MNT/run/step-8/.metadata"
expect_ok "$CKPTFS" wait --timeout 30 "$MNT/run/step-8"
umount_ckptfs
expect_ok "$CKPTFS" latest "$BACK/run"
assert_eq "$OUT" "$BACK/run/step-8"
