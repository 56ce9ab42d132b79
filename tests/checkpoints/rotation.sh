#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A job that removes its last checkpoint, before or after it saves the next one, has that until the next is committed:
# gone from the mount at once, on the backing until then, and back if none comes. What a person removes is gone.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *
import shutil

def on_backing():
	return sorted(n for n in os.listdir(back) if not n.startswith(".ckptfs"))

one, two, three = (mnt + "/step-%d" % i for i in (1, 2, 3))
first = make(one)
second = begin(two)
os.mkdir(two + "/sub")
shutil.rmtree(one)
assert names() == ["step-2"], names()
assert on_backing() == ["step-1"], on_backing()
assert tree(back + "/step-1") == first
shown = status()
(removal,) = shown["removals"]
assert (removal["path"], removal["state"], removal["uid"]) == ("step-1", "removed", os.getuid()), removal
assert removal["waits_for"].startswith("the commit of the next checkpoint of its job beside it"), removal
assert removal["job"] == [g["job"] for g in shown["pending"] if g["path"] == "step-2"][0], shown
for told in ckptfs("status", mnt)[1], ckptfs("why", one)[1]:
	assert "removed" in told and "the commit of the next checkpoint of its job" in told, told
assert [u["state"] for u in json.loads(ckptfs("ls", "--all", "--json", mnt)[1])["units"] if u["path"] == one] == ["removed"]
assert ckptfs("wait", "--timeout", "0", one)[0] == 1
end(two, second)
wait(lambda: on_backing() == ["step-2"])
wait(lambda: not status()["removals"]) # the entry goes a moment later
second["sub"] = None
is_whole("step-2", second)

# The other order, onto the same name.
shutil.rmtree(two)
fails(errno.ENOENT, os.stat, two)
assert names() == [] and on_backing() == ["step-2"]
second = begin(two, seed=9)
assert tree(two) == second
end(two, second)
wait_for(two)
is_whole("step-2", second)

# The same, but a file that says nothing of it comes first.
shutil.rmtree(two)
os.mkdir(two)
save(two + "/notes.txt", b"notes")
assert on_backing() == ["step-2"] and tree(back + "/step-2") == second
second = {"notes.txt": b"notes", "__0_0.distcp": b"x"}
save(two + "/__0_0.distcp", b"x")
end(two, second)
wait_for(two)
is_whole("step-2", second)

# None comes.
third = begin(three)
shutil.rmtree(two)
assert names() == ["step-3"]
assert ckptfs("commit", "--abandon", three)[0] == 0
assert names() == [] and on_backing() == ["step-2"]
END
umount_ckptfs
assert_eq "$(cd "$BACK" && ls -d step-*)" step-2
mount_ckptfs -o order_timeout_s=1,quiet_s=3600
program <<'END'
from checkpoints import *
import shutil

two = mnt + "/step-2"
before = tree(two)
begin(mnt + "/step-4")
shutil.rmtree(two)
fails(errno.ENOENT, os.stat, two)
assert ckptfs("commit", "--abandon", mnt + "/step-4")[0] == 0
wait(lambda: any(f["op"] == "removal" for f in failures()))
is_whole("step-2", before)
END
# Nobody saves here any more.
expect_ok setsid -w rm -r "$MNT/step-2"
[ ! -e "$BACK/step-2" ] || die "a person's removal waits"
umount_ckptfs

# One that was changed between the removal of a part of it and that of the rest does not come back either.
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *
import shutil

one, two = mnt + "/step-5", mnt + "/step-6"
make(one)
os.unlink(one + "/__1_0.distcp")
save(one + "/late.txt", b"late")
assert ckptfs("commit", one)[0] == 0
wait(lambda: os.path.exists(back + "/step-5/late.txt"))
shutil.rmtree(one)
make(two)
wait(lambda: not os.path.exists(back + "/step-5"))
assert names() == ["step-6"], names()

# Nor does one that a job has removed which is gone, when another has begun it anew, removed it, too, and goes on.
three = mnt + "/step-7"
code = "import sys; sys.path[:0] = %r; from checkpoints import *; import shutil; make(%r); shutil.rmtree(%r)" % (
	sys.path[:3], one, one)
subprocess.run(["setsid", "-w", sys.executable, "-c", code], check=True)
assert os.path.exists(back + "/step-5"), "the removal should wait"
begin(one)
shutil.rmtree(one)
assert os.path.exists(back + "/step-5"), "the removal should wait"
make(three)
wait(lambda: not os.path.exists(back + "/step-5"))
assert names() == ["step-6", "step-7"], names()
END
umount_ckptfs
