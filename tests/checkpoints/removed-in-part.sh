#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that a job, or a person, removes from a committed checkpoint is a change to that, made after some silence; and a
# checkpoint that is removed while it is being changed does not come back.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *
import shutil

def make_plain():
	os.mkdir(mnt + "/plain")
	save(mnt + "/plain/file", b"x")
	return mnt + "/plain"

one, two = mnt + "/step-1", mnt + "/step-2"
first = make(one)
os.unlink(one + "/__1_0.distcp")
gone = first.pop("__1_0.distcp")
assert tree(one) == first
assert read(back + "/step-1/__1_0.distcp") == gone
assert all((r["path"], r["state"]) == ("step-1", "removing") for r in status()["removals"])
wait(lambda: not os.path.exists(back + "/step-1/__1_0.distcp"))
is_whole("step-1", first)

# So does a person, who may be interrupted.
def person(*command):
	subprocess.run(["setsid", "-w", *command], check=True)
verify(back + "/step-1")
person("rm", one + "/__0_0.distcp")
assert tree(one) == {".metadata": b"metadata"} and tree(back + "/step-1") == first
fails(errno.ENOTEMPTY, os.rename, make_plain(), one)
first.pop("__0_0.distcp")
wait(lambda: not os.path.exists(back + "/step-1/__0_0.distcp"))
is_whole("step-1", first)
three = mnt + "/step-3"
make(three)
person("rm", "-r", three)
assert not os.path.exists(back + "/step-3")

save(one + "/late.txt", b"late")
shutil.rmtree(one)
assert names() == ["plain"], names()
second = make(two)
wait(lambda: not os.path.exists(back + "/step-1"))
is_whole("step-2", second)
assert names() == ["plain", "step-2"], names()

# Also under another name, when its own is another's by then.
os.unlink(two + "/__1_0.distcp")
second.pop("__1_0.distcp")
os.rename(two, three)
make(two, seed=2)
assert tree(three) == second, sorted(tree(three))
wait(lambda: not os.path.exists(back + "/step-3/__1_0.distcp"))
is_whole("step-3", second)
assert not failures(), failures()
END
umount_ckptfs
