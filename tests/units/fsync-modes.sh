#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What an fsync of a checkpoint's file waits for, by the option fsync and by who calls it: that of a rank is a barrier,
# that of others is durable, and status says so; all are durable, or none; O_SYNC is, always.
#
# timeout: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
cat >"$TEST_TMP/modes.py" <<'END'
from presets import *

LARGE = 64 * MB # more than is flushed while anybody looks

def dirty(path):
	"""Bytes of it that are in the cache only."""
	code, told = ckptfs("why", "--json", mnt + "/" + path)
	return json.loads(told)["dirty_bytes"]

def note(path):
	return state(path).get("note")

def begin(rank, path, size):
	if "/" in path:
		rank.makedirs(os.path.dirname(path))
	rank.create(path)
	rank.write(path, size, 1)

def is_barrier(rank, path):
	"""A file of a unit, or one that is a unit."""
	begin(rank, path, LARGE)
	rank.fsync(path)
	assert dirty(path), "it was flushed"
	assert not note(path.split("/")[0])
	rank.close(path)
	assert dirty(path), "its close has waited"
	rank.unlink(path)

def is_durable(rank, path, rankless=False):
	begin(rank, path, 100000)
	rank.fsync(path)
	assert not dirty(path), "it was not flushed"
	assert note(path.split("/")[0]) == ("rank unknown, fsync is durable here" if rankless else None), state(path)
	code, said = ckptfs("status", mnt)
	assert ("rank unknown, fsync is durable here" in said) == rankless, said
	rank.close(path)
	if "/" not in path:
		assert read(back + "/" + path) == data(1, 100000), "its close has not waited"
END

# mode MODE: the program that follows is run with that option. Flushing takes 16 s for the large file.
mode() {
	mount_ckptfs -o "fsync=$1,flush_bw=4M,quiet_s=3600,host_cache_size=256M" "$TEST_TMP/back-$1" "$TEST_TMP/mnt-$1"
	program < <(cat "$TEST_TMP/modes.py" -)
	run "$CKPTFS" umount "$MNT" # checkpoints without their end stay so
}

mode barrier <<'END'
with Job(2) as job:
	is_barrier(job[0], "x.pt")
	is_barrier(job[1], "step-1/__1_0.distcp")
	job[0].create("sync.pt", os.O_SYNC)
	job[0].write("sync.pt", 100000, 1)
	assert not dirty("sync.pt")
	job[0].fsync("sync.pt")
	job[0].close("sync.pt")
	assert read(back + "/sync.pt") == data(1, 100000)
	job[0].text("log.txt", "ordinary")
	job[0].create("log.txt")
	job[0].write("log.txt", 1 * MB, 2)
	job[0].fsync("log.txt")
	assert not dirty("log.txt") and read(back + "/log.txt") == data(2, 1 * MB)
	job[0].close("log.txt")
other = Rank()
is_durable(other, "y.pt", True)
is_durable(other, "step-2/__0_0.distcp", True)
other.exit()
END

mode durable <<'END'
with Job(2) as job:
	is_durable(job[0], "x.pt")
	is_durable(job[1], "step-1/__1_0.distcp")
END

mode barrier-all <<'END'
with Job(2) as job:
	is_barrier(job[0], "x.pt")
other = Rank()
is_barrier(other, "y.pt")
is_barrier(other, "step-1/__0_0.distcp")
other.exit()
END
