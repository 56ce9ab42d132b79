#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A rename in a committed checkpoint, or into it, is a change to it like any other; what is in one cannot be taken out of
# it by a rename, as little as out of a filesystem.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

unit = mnt + "/step-1"
content = make(unit)
was = dict(content)
held = os.open(unit + "/__1_0.distcp", os.O_RDONLY)

os.rename(unit + "/__0_0.distcp", unit + "/__7_0.distcp")
content["__7_0.distcp"] = content.pop("__0_0.distcp")
assert tree(unit) == content, sorted(tree(unit))
wait_for(unit)
is_whole("step-1", content)

os.rename(unit + "/__7_0.distcp", unit + "/__1_0.distcp") # over another
content["__1_0.distcp"] = content.pop("__7_0.distcp")
assert ckptfs("commit", unit)[0] == 0 # it might be a new save of the same name
wait_for(unit)
is_whole("step-1", content)
assert os.pread(held, 9999, 0) == was["__1_0.distcp"]

os.mkdir(mnt + "/other")
save(mnt + "/other/notes.txt", b"notes")
os.rename(mnt + "/other/notes.txt", unit + "/notes.txt")
content["notes.txt"] = b"notes"
assert os.listdir(mnt + "/other") == []
wait_for(unit)
is_whole("step-1", content)

fails(errno.EXDEV, os.rename, unit + "/notes.txt", mnt + "/other/notes.txt")
pending = mnt + "/step-2"
begin(pending)
fails(errno.EXDEV, os.rename, unit + "/notes.txt", pending + "/notes.txt")
is_whole("step-1", content)
subprocess.run(["mv", unit + "/notes.txt", mnt + "/other/"], check=True) # which copies
assert read(mnt + "/other/notes.txt") == content.pop("notes.txt")
assert tree(unit) == content
assert failures() == [], failures()
END
