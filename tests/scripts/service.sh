#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of ckptfs@.service, run as systemd runs them: the mount answers when the first returns, what is being written
# when it is stopped is waited for and committed, and the mount is gone. After a crash the first works again.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
unit=$SRC/mount-scripts/ckptfs@.service
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
PATH=$(dirname "$CKPTFS"):$PATH

# commands KEY: of the unit, without the prefix that only tells what becomes of a failure.
commands() {
	sed -n "s/^$1=-\?//p" "$unit"
}

# execute COMMAND: with the variables and specifiers replaced as systemd does.
execute() {
	local words
	# shellcheck disable=SC2034 # for envsubst by eval
	local BACKING=$BACK OPTIONS=host_cache_size=64M,quiet_s=3600 DRAIN_S UMOUNT_S
	eval "$(sed -n 's/^Environment=//p' "$unit")"
	read -ra words <<<"$1"
	words=("${words[@]//%f/$MNT}")
	for ((i = 0; i < ${#words[@]}; i++)); do
		[[ ${words[i]} != \$\{*\} ]] || eval "words[i]=${words[i]}"
	done
	expect_ok "${words[@]}"
}

assert_eq "$(commands ExecStart | wc -l) $(commands ExecStop | wc -l)" "1 2"
execute "$(commands ExecStart)"
expect_ok "$CKPTFS" status "$MNT"
kill9_and_reaped "$(daemon_pid)" 10
execute "$(commands ExecStart)"
daemon=$(daemon_pid)

mkfifo "$TEST_TMP/fifo"
# shellcheck disable=SC2016 # for the inner shell
sh -c 'exec >"$1" && echo x && read -r _ <"$2"' - "$MNT/x.pt" "$TEST_TMP/fifo" &
is_open() {
	[ "$(value 'x["state"]' "$("$CKPTFS" why --json "$MNT/x.pt")")" = open ]
}
wait_until 10 is_open
mkdir "$TEST_TMP/step-1"
touch "$TEST_TMP/step-1/"{__0_0.distcp,.metadata}
cp -r "$TEST_TMP/step-1" "$MNT" # waits for quiet_s
{
	wait_until 20 test -e "$BACK/step-1" # by the drain
	echo >"$TEST_TMP/fifo"
} &
while read -r command; do
	execute "$command"
done < <(commands ExecStop)
! is_mounted || die "still mounted"
_gone "$daemon" || die "the daemon lives"
assert_eq "$(cat "$BACK/x.pt")" x
expect_ok "$CKPTFS" verify "$BACK/step-1"
