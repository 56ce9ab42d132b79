#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A job of eight ranks, started by torchrun, each of which saves one file of its own: each is a checkpoint of one file,
# whatever becomes of the others; and all of them can make the directory.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

# torchrun's id of a job that was given none says nothing.
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
	"LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "0", "ROLE_NAME": "default"}
SIZE = 300000

def name(rank):
	return "out/rank%d.pt" % rank

def content(rank, save):
	return data(10 * save + rank, SIZE)

def all_at_once(ranks, call, *args, save=None):
	"""Each with its own file, if args do not say otherwise."""
	for rank in ranks:
		job[rank].tell(call, *(args or [name(rank)]), *([SIZE, 10 * save + rank] if save else []))
	for rank in ranks:
		assert job[rank].answer() is None, (rank, call)

def saved(save, ranks):
	for rank in ranks:
		verify(back + "/" + name(rank))
		assert read(back + "/" + name(rank)) == read(mnt + "/" + name(rank)) == content(rank, save), (rank, save)

everyone, others = range(8), [0, 1, 2, 4, 5, 6, 7]
with Job(8, **TORCHRUN) as job:
	all_at_once(everyone, "makedirs", "out")
	all_at_once(everyone, "file", save=1)
	published()
	saved(1, everyone)
	assert sorted(tree(back + "/out")) == [os.path.basename(name(rank)) for rank in everyone] and not failures()

	# One dies in the middle of the next: its file is what it was, the others are saved.
	all_at_once(everyone, "create")
	all_at_once(everyone, "write", save=2)
	job[3].kill()
	all_at_once(others, "close")
	published()
	saved(2, others)
	wait(lambda: [f["path"] for f in failures()] == [name(3)])
	saved(1, [3])
END2
umount_ckptfs
assert_eq "$(cd "$BACK/out" && echo *)" "$(echo rank{0..7}.pt)" "what is left"
