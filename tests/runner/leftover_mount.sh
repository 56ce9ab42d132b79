#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# needs: root
# Mounts and loop devices that a test leaves go with it, a frozen filesystem included; also when it times out.

. "${SRC:?}/tests/runner/tree.sh"

loop_fs ext4 16 "$TEST_TMP/probe"    # skips where there are no loop devices

for end in true 'sleep 4324'; do
	make_test a/mounts.sh <<END
# timeout: 2
# What the library would clean up is left here on purpose: no exit trap.
. "\$SRC/tests/lib.sh"
trap - EXIT
mkdir "\$TEST_TMP/a b"
mount -t tmpfs tmpfs "\$TEST_TMP/a b"
loop_fs ext4 16 "\$TEST_TMP/a b/ice"
echo x >"\$TEST_TMP/a b/ice/file"
fsfreeze -f "\$TEST_TMP/a b/ice" || exit 1
(echo y >"\$TEST_TMP/a b/ice/other") &
$end
END
	run_tree -j 1
	case $end in
	true) assert_closing "1 passed, 0 failed, 0 skipped" ;;
	*) assert_closing "0 passed, 1 failed, 0 skipped" ;;
	esac
	[[ $OUT != *still* ]] || die "the runner could not clean up"$'\n'"$OUT"
	assert_nothing_left
done
