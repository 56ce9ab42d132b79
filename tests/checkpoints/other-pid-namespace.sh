#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The daemon is in a pid namespace of its own, and cannot see the processes that save: what ends a checkpoint commits it, but no
# silence does, for that may be the death of a writer. A person may commit it.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
needs unshare
export MNT=$TEST_TMP/mnt BACK=$TEST_TMP/back
mkdir "$MNT" "$BACK"
mkfifo "$TEST_TMP/go"
# Its first process stays, else all of it ends. What it saves itself the daemon sees.
# shellcheck disable=SC2016 # for the inner shell
exec 3< <(exec unshare -pf --kill-child sh -c '
	"$CKPTFS" mount -o host_cache_size=64M,quiet_s=1 "$BACK" "$MNT" && echo mounted
	read -r go <"$TEST_TMP/go"
	mkdir "$MNT/seen" "$MNT/seen/epoch_1" && echo 1 >"$MNT/seen/epoch_1/random_states_0.pkl" && echo saved
	sleep 1000')
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

# Of accelerate: the files of every rank, and silence.
os.mkdir(mnt + "/run")
os.mkdir(mnt + "/run/epoch_1")
save(mnt + "/run/epoch_1/random_states_0.pkl", b"1\n")
END
echo >"$TEST_TMP/go"
read -r told <&3
assert_eq "$told" saved "what it says"
expect_ok "$CKPTFS" wait --timeout 60 "$MNT/seen/epoch_1"
expect_ok test ! -e "$BACK/run/epoch_1"
expect_ok "$CKPTFS" why "$MNT/run/epoch_1"
assert_contains "$OUT" "no silence counts, since the daemon cannot see a process that wrote it"
expect_ok "$CKPTFS" commit "$MNT/run/epoch_1"
expect_ok "$CKPTFS" wait --timeout 60 "$MNT/run/epoch_1"
expect_ok cmp "$BACK/run/epoch_1/random_states_0.pkl" "$BACK/seen/epoch_1/random_states_0.pkl"
umount_ckptfs
