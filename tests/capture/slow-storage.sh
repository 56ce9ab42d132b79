#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 60
# A session that has borrowed little of the cache does not wait for the storage while the cache has room: what it has captured
# moves there. Beyond that it waits.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M,flush_bw=1K
program <<'END'
from capture import *
s = Session(rank=0, world=1, arena=4 * MB)
b = data(1, 24 * MB + 12345)
s.register({1: len(b)})
with open(mnt + "/x.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, len(b), b))
	s.capture()
	assert read(mnt + "/x.pt") == b
now = status()
assert now["cache"]["dirty"] > 20 * MB, now["cache"]
assert now["captures"]["copied_bytes"] >= len(b) - 4 * MB, now["captures"]

# Plain writers find a quarter of what is not lent.
s.register({2: 64 * MB})
with open(mnt + "/y.pt", "wb", 0) as f:
	s.write(f, (2, 0, 0, 64 * MB, data(2, 64 * MB)))
	grants = s.next((), 1000)
	while grants:
		grants = s.next(s.copy(grants)) or s.next((), 1000)
	assert status()["cache"]["free"] >= 15 * MB, status()["cache"]
	with open(mnt + "/z.pt", "wb", 0) as g:
		g.write(bytes(8 * MB))
END

# A limited user keeps a quarter of that limit for plain writes.
mkdir "$TEST_TMP/back-limited" "$TEST_TMP/limited"
mount_ckptfs -o host_cache_size=64M,flush_bw=1K,cache_per_uid=16M "$TEST_TMP/back-limited" "$TEST_TMP/limited"
MNT=$TEST_TMP/limited program <<'END'
from capture import *
s = Session(rank=0, world=1)
assert s.slot * s.slots == 12 * MB, s.slots
s.register({1: 32 * MB})
with open(mnt + "/x.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, 32 * MB, data(1, 32 * MB)))
	grants = s.next((), 1000)
	while grants:
		grants = s.next(s.copy(grants)) or s.next((), 1000)
	assert status()["captures"]["copied_bytes"] == 0
	with open(mnt + "/y.pt", "wb", 0) as g:
		g.write(bytes(3 * MB))
END
