#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A pointer file never names what is not committed: what a program writes to it waits for that checkpoint, is dropped if
# that fails, and until then everybody reads what it named before. One that names nothing, or what is committed, is
# applied at once.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
RANK=0 WORLD_SIZE=1 program <<'END'
from checkpoints import *

latest, on_backing = mnt + "/latest", back + "/latest"

def point(tag):
	with open(latest, "w") as file:
		file.write(tag)

def shards(tag):
	os.mkdir(mnt + "/" + tag)
	for rank in range(2):
		save(mnt + "/%s/zero_pp_rank_%d_mp_rank_00_optim_states.pt" % (tag, rank), data(rank, 3000))

def shows():
	return [read(p) if os.path.exists(p) else None for p in (latest, on_backing)]

point("nothing")
wait(lambda: shows() == [b"nothing"] * 2)
shards("global_step1")
point("global_step1")
assert shows() == [b"nothing"] * 2, shows()
assert not os.path.exists(back + "/global_step1")
shards("global_step2") # the next sibling is the end of the first
wait(lambda: shows() == [b"global_step1"] * 2)
verify(back + "/global_step1")
point("global_step2")
assert shows() == [b"global_step1"] * 2, shows()
assert ckptfs("commit", "--abandon", mnt + "/global_step2")[0] == 0
wait(lambda: any(f["op"] == "pointer" for f in failures()))
assert shows() == [b"global_step1"] * 2, shows()
assert names() == ["global_step1", "latest"], names()

# Of two that wait, the later one counts; and one that need not wait overtakes both.
shards("global_step3")
point("global_step3")
shards("global_step4")
wait(lambda: shows() == [b"global_step3"] * 2)
point("global_step4")
point("global_step1")
wait(lambda: shows() == [b"global_step1"] * 2)
assert ckptfs("commit", mnt + "/global_step4")[0] == 0
wait_for(mnt + "/global_step4")
wait(lambda: not pending())
assert shows() == [b"global_step1"] * 2, shows()
point("global_step4")
wait(lambda: shows() == [b"global_step4"] * 2)
END
umount_ckptfs
