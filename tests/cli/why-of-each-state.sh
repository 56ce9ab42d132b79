#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What why says of each state, word by word: one answer, and nothing that contradicts it. Status says the same of a checkpoint.
#
# timeout: 90

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
mount_ckptfs -o "quiet_s=3600,flush_bw=$((500000 / ${TEST_SLOW:-1}))" "$TEST_TMP/back" "$TEST_TMP/mnt"
mkdir -p "$BACK/old"
printf 'older' >"$BACK/old/foreign.pt"
mkdir -p "$BACK/checkpoint-7"
echo '{}' >"$BACK/checkpoint-7/trainer_state.json"
program <<'END'
import re
from presets import *

SAVING = {"new": "until it is committed the backing has nothing of this name",
	"old": "until it is committed the backing has what had this name before",
	"part": "it is a part of a checkpoint, and is committed with that"}

def why(path):
	code, text = ckptfs("why", mnt + "/" + path)
	assert code == 0, text
	text = re.sub(r"\d+(\.\d)? s ago by uid \d+(, of job [^\n]*)?", "N s ago by N", text)
	text = re.sub(r"[\d.]+ (B|KiB|MiB) of", "N of", text)
	return [line.strip() for line in text.splitlines()]

def says(path, *lines):
	assert why(path) == list(lines), "\n".join(["got:"] + why(path) + ["wanted:"] + list(lines))

def json_of(path):
	return json.loads(ckptfs("why", "--json", mnt + "/" + path)[1])

# One file: open, sealed, committed; over another one; failed; dropped.
fd = os.open(mnt + "/a.pt", os.O_CREAT | os.O_WRONLY)
os.write(fd, data(1, 5000))
wait(lambda: json_of("a.pt")["dirty_bytes"] == 0)
says("a.pt", "a.pt: open (being written)", "no end seen yet: 1 process wrote it and has not closed it",
	"N of 4.9 KiB stored; begun N s ago by N", SAVING["new"])
os.close(fd)
wait_for(mnt + "/a.pt")
COMMITTED = "it is on the backing, whole when it was saved, and waits for nothing; `ckptfs verify` checks its bytes"
says("a.pt", "a.pt: committed", COMMITTED)
save(mnt + "/a.pt", data(2, 3 * MB))
says("a.pt", "a.pt: sealed (closed, being stored)", "closed; N of 3.0 MiB are still to be written to the backing",
	"N of 3.0 MiB stored; begun N s ago by N", SAVING["old"])
rm(mnt + "/a.pt")
says("a.pt", "a.pt: dropped", "a program removed or replaced it before it was committed")
pid = child(lambda: (os.write(os.open(mnt + "/b.pt", os.O_CREAT | os.O_WRONLY), b"x" * 5000), os.kill(os.getpid(), 9)))
os.waitpid(pid, 0)
wait(lambda: json_of("b.pt")["state"] == "failed")
says("b.pt", "b.pt: failed (not committed)", "a process that was writing 'b.pt' was killed by signal 9 (Killed), so the file is not "
	"complete and was not published. What had the name 'b.pt' before is whole and still has it")

# A directory that is a unit: being written, a file and a directory of it, committed, then parts of it; failed.
one = Rank(session=True)
one.mkdir("checkpoint-1")
one.create("checkpoint-1/model.safetensors")
one.write("checkpoint-1/model.safetensors", 1000, 1)
wait(lambda: json_of("checkpoint-1")["dirty_bytes"] == 0)
lines = why("checkpoint-1")
assert lines[0] == "checkpoint-1: open (being written)" and lines[1].startswith("it waits for: the close of trainer_state.json"), lines
assert "{rank}" not in str(lines) and lines[2:] == ["N of 1000 B stored; begun N s ago by N", SAVING["new"]], lines
says("checkpoint-1/model.safetensors", "checkpoint-1/model.safetensors: open (being written)",
	"no end seen yet: 1 process wrote it and has not closed it", "N of 1000 B stored; begun N s ago by N", SAVING["part"])
assert ckptfs("commit", mnt + "/checkpoint-1")[0] == 0
one.close("checkpoint-1/model.safetensors")
wait_for(mnt + "/checkpoint-1")
says("checkpoint-1", "checkpoint-1: committed", COMMITTED)
says("checkpoint-1/model.safetensors", "checkpoint-1/model.safetensors: committed",
	"it is a part of a committed checkpoint; `ckptfs verify` checks its bytes")
assert json_of("checkpoint-1/model.safetensors")["kind"] == "part"
assert os.getxattr(mnt + "/checkpoint-1/model.safetensors", "user.ckptfs.state") == b"committed"
one.mkdir("checkpoint-2")
one.file("checkpoint-2/model.safetensors", 1000, 2)
wait(lambda: "checkpoint-2/model.safetensors" not in pending() and json_of("checkpoint-2/model.safetensors")["state"] == "durable")
says("checkpoint-2/model.safetensors", "checkpoint-2/model.safetensors: durable (stored, not yet committed)",
	"the commit of its checkpoint", "N of 1.0 KiB stored", SAVING["part"])
assert ckptfs("commit", "--abandon", mnt + "/checkpoint-2")[0] == 0
lines = why("checkpoint-2")
assert lines[0] == "checkpoint-2: failed (not committed)" and "was abandoned by uid 0" in lines[1] and len(lines) == 2, lines

# What no mount saved, what no rule claims, what is not there, what was changed since.
FOREIGN = ["it has no digest: no mount saved it as a checkpoint, and nothing vouches that it is",
	"whole. `ckptfs fsck --adopt` records digests of what can be shown to be whole"]
says("old/foreign.pt", "old/foreign.pt: foreign (not saved as a checkpoint)", *FOREIGN)
says("checkpoint-7", "checkpoint-7: foreign (not saved as a checkpoint)", "the rule hf-trainer claims it; " + FOREIGN[0], FOREIGN[1])
for path in "old/foreign.pt", "checkpoint-7":
	assert json_of(path)["state"] == "foreign" and json_of(path)["foreign"] is True
	assert "has no digest: no mount saved it" in ckptfs("wait", mnt + "/" + path)[1]
assert os.getxattr(mnt + "/old/foreign.pt", "user.ckptfs.state") == b"foreign"
save(mnt + "/m.bin2", b"x")
UNCLAIMED = ["no rule claims this name: it is not atomic, and has no digest. Call it *.pt or",
	"*.safetensors, or add a rule (ckptfs-rules(5))"]
wait(lambda: json_of("m.bin2")["dirty_bytes"] == 0)
says("m.bin2", "m.bin2: ordinary file, NOT protected", *UNCLAIMED)
DIRECTORY = ["no rule claims it: the checkpoints in it are saved one by one, not together.",
	"`ckptfs ls` lists them; ckptfs-rules(5) tells how to save it as one"]
says("old", "old: directory", *DIRECTORY)
says("", "/: directory", *DIRECTORY)
says("checkpont-1", "checkpont-1: absent", "there is nothing of this name", "the nearest name there: %s/checkpoint-1" % mnt)
says("zzzzzzzz", "zzzzzzzz: absent", "there is nothing of this name")
save(mnt + "/c.pt", data(3, 1000))
wait_for(mnt + "/c.pt")
with open(back + "/c.pt", "ab") as file:
	file.write(b"more")
wait(lambda: why("c.pt") == ["c.pt: committed", "it was changed since it was saved, so nothing vouches for its bytes; `ckptfs verify` tells more"])
code, text = ckptfs("status", mnt + "/c.pt")
assert code == 0 and text.startswith("c.pt: committed\n"), text
END
[ "$(id -u)" = 0 ] || exit 0
# What cannot be looked at says so, in JSON too.
mkdir "$MNT/closed"
chmod 700 "$MNT/closed"
run as_user 1001 "$CKPTFS" why --json "$MNT/closed/x.pt"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" '"code": "EACCES"'
assert_contains "$OUT" "cannot be looked at: Permission denied"
