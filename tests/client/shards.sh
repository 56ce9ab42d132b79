#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example of files with many tensors: saved by handle, committed, restored; on the backing they are safetensors files,
# decoded here from the format's description. One whose file was not closed never commits.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs -o "host_cache_size=64M,quiet_s=1"
shards=$BUILD/tests/client/shards

# decode DIR: reads the files as the format says, and compares what is in them.
decode() {
	python3 - "$1" <<'END'
import array, json, struct, sys

ROWS, COLUMNS, OBJECT = 1000, 700, 100001
whole = array.array("f", map(float, range(ROWS * COLUMNS)))
negative = array.array("f", (-x for x in whole))
found = {"by_row": 0, "by_column": 0}
for file in range(2):
	with open("%s/shard-%05d-model-00001-of-00001.safetensors" % (sys.argv[1], file + 1), "rb") as f:
		content = f.read()
	length, = struct.unpack("<Q", content[:8])
	assert (8 + length) % 4096 == 0
	header = json.loads(content[8:8 + length].decode())
	data = content[8 + length:]
	metadata = header.pop("__metadata__")
	assert metadata["format"] == "pt" and metadata["step"] == "12"
	places = sorted(entry["data_offsets"] for entry in header.values())
	assert places[0][0] == 0 and places[-1][1] == len(data), "holes"
	assert all(a[1] == b[0] for a, b in zip(places, places[1:])), "holes"
	shards = json.loads(metadata["DCP_SHARDING_INFO"])
	assert set(shards) == set(header)
	for name, source in (("by_row", whole), ("by_column", negative)):
		entry, at = header[name], shards[name]["saved_offsets"]
		assert entry["dtype"] == "F32" and shards[name]["global_shape"] == [ROWS, COLUMNS]
		begin, end = entry["data_offsets"]
		got = array.array("f", data[begin:end])
		rows, columns = entry["shape"]
		for row in range(rows):
			where = (at[0] + row) * COLUMNS + at[1]
			assert got[row * columns:(row + 1) * columns] == source[where:where + columns], (name, row)
		found[name] += rows * columns
	entry = header["object.%d" % file]
	assert entry["dtype"] == "U8"
	begin, end = entry["data_offsets"]
	assert data[begin:end] == bytes((i * 31 + i // 256) % 256 for i in range(OBJECT - file * 1000))
	if not file:
		entry = header["step"]
		assert entry["dtype"] == "I64" and entry["shape"] == []
		assert struct.unpack("<q", data[slice(*entry["data_offsets"])]) == (12,)
assert set(found.values()) == {ROWS * COLUMNS}
END
}

expect_ok "$shards" save "$MNT/one"
assert_eq "$OUT" "saved $MNT/one" "it says"
expect_ok "$CKPTFS" wait --timeout 60 "$MNT/one"
expect_ok "$shards" restore "$MNT/one"
expect_ok "$CKPTFS" verify "$BACK/one"
expect_ok decode "$BACK/one"
expect_ok "$shards" restore "$BACK/one"

# On a plain directory the same bytes.
mkdir plain
expect_ok "$shards" save plain/one
for file in plain/one/*; do
	expect_ok cmp "$file" "$BACK/one/$(basename "$file")"
done

for how in abandon leave; do
	expect_ok "$shards" "$how" "$MNT/$how"
	expect_fail "$CKPTFS" wait --timeout 60 "$MNT/$how"
	assert_contains "$OUT" "$how/shard-00002-model-00001-of-00001.safetensors is not a whole file"
	assert_contains "$OUT" "header"
	[ ! -e "$BACK/$how" ] || die "$how: a file without its header was committed"
	expect_fail "$shards" restore "$MNT/$how"
done

# A checkpoint of one file, whose program forgets to close it and exits well.
forget() {
	python3 - "$BUILD/lib/libckptfs.so.1" "$MNT/one.safetensors" <<'END'
import ctypes, sys
library, file = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
assert not library.ckptfs_file_create(None, sys.argv[2].encode(), None, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.byref(file))
assert not library.ckptfs_file_object(file, b"object", b"12345", ctypes.c_uint64(5))
END
}
expect_ok forget
expect_fail "$CKPTFS" wait --timeout 60 "$MNT/one.safetensors"
assert_contains "$OUT" "one.safetensors is not a whole file"
assert_contains "$OUT" "header"
[ ! -e "$BACK/one.safetensors" ] || die "a file without its header was published"
umount_ckptfs
