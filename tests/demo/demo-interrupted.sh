#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 500
# heavy: check-demo
# A signal in the middle of the demo leaves no mount, no temporary directory and no program behind.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mkdir "$TEST_TMP/tmp"
mkfifo "$TEST_TMP/lines"

below_tmp() {
	grep -lzF "$TEST_TMP/tmp/" /proc/[0-9]*/cmdline 2>/dev/null
}

none_left() {
	[ -z "$(below_tmp)" ]
}

# interrupted SIGNAL STATUS WHEN: sent when the demo prints a line that contains WHEN, it ends the demo with STATUS.
interrupted() {
	local line seen=''
	# A shell starts what runs in the background with SIGINT ignored; env undoes that.
	env --default-signal=HUP,INT,TERM TMPDIR="$TEST_TMP/tmp" DEMO_SHARED_NS=1 DEMO_MIB="$mib" \
		DEMO_SAVE_MIB=32 TRAINER="$BUILD/tests/trainer/trainer" \
		DEMO_WITHOUT="torch safetensors h5py numpy" bash "$SRC/tests/demo/demo.sh" >"$TEST_TMP/lines" 2>&1 &
	while read -r line; do
		echo "$line"
		if [ -z "$seen" ] && [[ $line == *"$3"* ]]; then
			seen=1
			kill -s "$1" $! || die "the demo has ended before"
		fi
	done <"$TEST_TMP/lines"
	wait $!
	assert_eq $? "$2" "exit status after SIG$1 $3"
	assert_eq "$(ls -A "$TEST_TMP/tmp")" "" "files left by the demo"
	! grep "$TEST_TMP/tmp" /proc/self/mountinfo || die "a mount left by the demo"
	wait_until 10 none_left
}

mib=64    # so that there is something to interrupt
interrupted INT 130 "in the plain directory"
interrupted INT 130 "in the mounted directory"
interrupted TERM 143 "in the mounted directory"
interrupted HUP 129 "mounting"
interrupted INT 130 "unmounting"

command -v python3 >/dev/null || exit 0
mib=2
interrupted INT 130 "by turns"
interrupted INT 130 "half of it is written"
interrupted TERM 143 "some of it is flushed"
interrupted INT 130 "the program is killed in the middle"
interrupted INT 130 "the same training: plain directory"
interrupted TERM 143 "it is killed in the middle of a save, and started again"
