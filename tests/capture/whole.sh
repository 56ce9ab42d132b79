#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files in a checkpoint of many that have not got their end: one never commits; but of names that promise no format none is
# asked for, as of DCP's files, which are many of torch.save one behind the other.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *
import io, zipfile

def archive(nr):
	file = io.BytesIO()
	with zipfile.ZipFile(file, "w") as z:
		z.writestr("archive/data/0", data(nr, 300000 * nr))
	return file.getvalue()
def commits(unit, name, content, by_handle=0):
	os.mkdir(mnt + "/" + unit)
	try:
		open(mnt + "/" + unit + "/__0_0.distcp", "wb").close()
	except OSError as e: # of the unit before, told once
		assert e.errno == errno.EILSEQ, e
		open(mnt + "/" + unit + "/__0_0.distcp", "wb").close()
	with open(mnt + "/" + unit + "/" + name, "wb", 0) as f:
		f.write(content)
		if by_handle:
			s.write(f, (1, 1000, 0, by_handle, content[1000:]))
			s.capture()
	assert ckptfs("commit", mnt + "/" + unit)[0] == 0
	status, text = ckptfs("wait", "--timeout", "60", mnt + "/" + unit)
	assert status == 0 or name in text, text
	return status == 0 and read(back + "/" + unit + "/" + name) == content

s = Session(arena=4 * MB)
s.register({1: 100000})
two = archive(1) + archive(2)
assert commits("dcp", "__1_0.distcp", two, 100000)
assert commits("zip", "mp_rank_00_model_states.pt", archive(1), 100000)
assert not commits("cut", "mp_rank_00_model_states.pt", archive(1)[:-1], 100000)
# By handle or not: what begins with a header of no bytes was never closed; what begins otherwise is its writer's business.
assert not commits("open-handle", "a.safetensors", bytes(200000), 100000)
assert not commits("open", "a.safetensors", bytes(200000))
# Of what libckptfs makes a file of tensors of, any name does: it leaves a mark until the header is written.
for name in "__0_0.distcp", "rank.bin", "b.safetensors":
	assert not commits("mark-" + name, name, b"ckptfs?\xff" + bytes(200000), 100000)
assert commits("zeros", "rank.bin", bytes(200000), 100000)
assert commits("pointer", "a.safetensors", b"version https://git-lfs.github.com/spec/v1\n")
assert commits("empty", "a.safetensors", b"")
s.bye()
END
umount_ckptfs
