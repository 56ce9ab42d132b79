#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What people see of captures: trace.json, with each tensor, rank and barrier; `ckptfs top`, as lines and JSON.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M,chunk_size=64K
program <<'END'
from capture import *

def trace():
	with open(CONTROL + "/trace.json") as f:
		return json.load(f)["traceEvents"]
def top(*options):
	code, told = ckptfs("top", "-n", "1", *options, mnt)
	assert code == 0, told
	return told

assert "captured" not in top() and [e for e in trace() if e.get("cat") == "capture"] == []
now = time.monotonic_ns
begin = now()
s = Session(rank=3, world=1, arena=4 * MB)
s.register_shards({1: ("layer.weight", 2 * MB, "F32", TENSOR, (2, MB // 4), (0, 0), (2, MB // 4)), 2: ("bias\xe9\udcff", MB, "U8", STORAGE, (), (), ())})
with open(mnt + "/x.pt", "wb", 0) as f, open(mnt + "/y.pt", "wb", 0) as g:
	s.write(f, (1, 0, 0, 2 * MB, data(1, 2 * MB)))
	s.write(g, (2, 0, 0, MB, data(2, MB)))
	told = top()
	assert "rank 3" in told and "3.0 MiB to capture" in told, told
	for nr, seq, _, _, size in s.next():
		copied = now()
		s.memory # what is in it does not matter here
		# A time before its write, and one to come, are nobody's: such a copy has none.
		times = (copied, now()) if seq == 1 else (1, now()) if nr % 2 else (copied, copied + 10**12)
		call(s.ctl, NEXT, struct.pack("=QIIIIQQQ", s.id, 1, 0, 0, 0, nr, *times))
	wait(lambda: s.stats()["pending"] == 0)
	call(s.ctl, BARRIER, struct.pack("=QQII", s.id, 5_000_000, 0, 0))
	call(s.ctl, BARRIER, struct.pack("=QQII", s.id, (1 << 64) - 1, 1, 0))
published()
events = trace()
ours = [e for e in events if e.get("cat") == "capture" and e["ph"] == "b"]
assert all(e["ts"] * 1000 >= begin - 1000 for e in ours), ours
spans = sorted((e["name"], e["args"]["tensor"], e["args"]["rank"], e["args"]["bytes"], e["args"]["failed"]) for e in ours)
weight, bias = ("layer.weight", 3, 2 * MB, False), ("bias\xe9\ufffd", 3, MB, False)
assert spans == sorted([("wait",) + weight, ("copy",) + weight, ("land",) + weight, ("wait",) + bias]), spans
for e in ours:
	end, = [x for x in events if x["ph"] == "e" and x["id"] == e["id"]]
	assert end["ts"] >= e["ts"] and end["pid"] == e["pid"] and end["name"] == e["name"], (e, end)
barriers = [(e["args"]["timed_out"], e["args"]["rank"]) for e in events if e["name"] == "barrier"]
assert barriers == [(False, 3), (True, 3)], barriers
assert 4900 < [e["dur"] for e in events if e["name"] == "barrier"][0] < 5100
row = {e["pid"] for e in ours}
assert [e["args"]["name"] for e in events if e["name"] == "process_name" and e["pid"] in row] == ["captures of rank 3 (process %d)" % os.getpid()]

# More than are kept, and one that fails.
bias_bytes = data(2, MB)
with contextlib.suppress(OSError), open(mnt + "/z.pt", "wb", 0) as f:
	for i in range(5):
		s.write(f, *((2, (i * 400 + k) * 8, 0, 8, bias_bytes) for k in range(400)))
		s.capture()
	for i in range(6):
		s.write(f, *((2, (i * 400 + k) * 8, 0, 8, bias_bytes) for k in range(400)))
		s.capture()
	s.write(f, (2, 0, 0, 8, b""))
	s.fail(s.seq, errno.EIO, "so it is")
ours = [e for e in trace() if e.get("cat") == "capture" and e["ph"] == "b" and e["name"] == "wait"]
assert len(ours) == 4096 and ours[-1]["args"]["failed"] and not ours[-2]["args"]["failed"], len(ours)

last = json.loads(top("--json"))
assert last["captures"]["captured_bytes"] == 3 * MB + 4400 * 8 and last["captures"]["failed"] == 1, last["captures"]
assert [(x["rank"], x["pid"]) for x in last["sessions"]] == [(3, os.getpid())]
assert "SOME FAILED" in top()
if os.getuid() == 0: # others see nothing of it
	pid = os.fork()
	if not pid:
		os.setuid(12345)
		os._exit(any(e.get("cat") in ("capture", "barrier") for e in trace()))
	assert os.waitpid(pid, 0)[1] == 0
END
umount_ckptfs
