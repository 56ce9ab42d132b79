#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A hard link between a committed checkpoint and what lies outside of it is refused, as between filesystems: a write by
# one name would change what is committed under the other.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
import errno
from checkpoints import *


def refused(old, new):
    try:
        os.link(old, new)
    except OSError as error:
        assert error.errno == errno.EXDEV, error
    else:
        raise AssertionError(f"{new} is a link to {old}")
    assert not os.path.exists(new)


unit, other = mnt + "/step-1", mnt + "/step-2"
content, content_of_other = make(unit), make(other)
os.mkdir(mnt + "/beside")
save(mnt + "/beside/notes.txt", b"notes")
refused(unit + "/__0_0.distcp", mnt + "/beside/shard")
refused(unit + "/__0_0.distcp", mnt + "/shard")
refused(mnt + "/beside/notes.txt", unit + "/notes.txt")
refused(unit + "/__0_0.distcp", other + "/__7_0.distcp")
is_whole("step-1", content)
is_whole("step-2", content_of_other)

os.link(unit + "/__0_0.distcp", unit + "/__8_0.distcp") # a change like any other
content["__8_0.distcp"] = content["__0_0.distcp"]
wait_for(unit)
is_whole("step-1", content)
END
