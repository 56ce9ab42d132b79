#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A checkpoint of processes that the daemon cannot see, since it is in a pid namespace of its own: what ends it, commits it.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
needs unshare
export MNT=$TEST_TMP/mnt BACK=$TEST_TMP/back
mkdir "$MNT" "$BACK"
# Its first process stays, else all of it ends.
# shellcheck disable=SC2016 # for the inner shell
exec 3< <(exec unshare -pf --kill-child sh -c '
	"$CKPTFS" mount -o host_cache_size=64M,quiet_s=3600 "$BACK" "$MNT" && echo mounted && sleep 1000')
read -r told <&3
assert_eq "$told" mounted "what it says"
program <<'END'
from checkpoints import *

one, two = mnt + "/step-1", mnt + "/step-2"
is_whole("step-1", make(one))
two = make(two)
os.unlink(one + "/__0_0.distcp")
subprocess.run(["rm", "-r", one], check=True)
wait(lambda: names(back) == [".ckptfs", "step-2"])
is_whole("step-2", two)
END
umount_ckptfs
