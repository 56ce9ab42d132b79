#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs-srun by an ordinary user, whom it is for; and where that user has no fusermount3.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"
. "$SRC/tests/scripts/srun.bash"

user_setup 1001
cluster 0
chmod 777 "$TEST_TMP"
touch "$TEST_TMP/srun.log"
chmod 666 "$TEST_TMP/srun.log"
mine=$TEST_TMP/mine/ckpt
# shellcheck disable=SC2016 # for the inner shell
expect_ok as_user 1001 timeout 60 ckptfs-srun "$BACK" "$mine" sh -c \
	'grep -qF " $1 " /proc/self/mountinfo && echo saved >"$1/x.pt"' - "$mine"
assert_eq "$(cat "$BACK/x.pt")" saved
assert_eq "$(stat -c %u "$BACK/x.pt")" 1001
! is_mounted "$mine" || die "still mounted"
wait_until 10 no_daemons_but

mkdir "$TEST_TMP/path"
for command in bash sh cat id uname srun ckptfs ckptfs-srun dirname realpath mktemp mkfifo rm setsid mkdir env grep; do
	ln -s "$(command -v "$command")" "$TEST_TMP/path/$command"
done
run timeout 60 setpriv --reuid=1001 --regid=1001 --clear-groups env "PATH=$TEST_TMP/path" ckptfs-srun "$BACK" "$mine" true
assert_eq "$RC" 125 "$OUT"
assert_contains "$OUT" "there is no fusermount3, without which only root can mount. An administrator can install it (package fuse3)"
