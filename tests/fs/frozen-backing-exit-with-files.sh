#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A killed process with many written files open ends although closing them waits for a backing that does not answer;
# so does a child that has the same files open.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

mergerfs_mount "$TEST_TMP/dir" "$TEST_TMP/served" # unlike bindfs it does something at close
mount_ckptfs "$TEST_TMP/served"
"$PYTHON" - "$MNT" "$TEST_TMP" <<'END' &
import os, signal, sys
files = [os.open(f"{sys.argv[1]}/f{i}", os.O_CREAT | os.O_WRONLY) for i in range(50)]
for fd in files:
	os.write(fd, b"x" * 5000)
child = os.fork()
open(f"{sys.argv[2]}/ready{os.getpid()}", "w").close()
signal.pause()
END
both_ready() {
	[ "$(find "$TEST_TMP" -maxdepth 1 -name 'ready*' | wc -l)" = 2 ]
}
wait_until 10 both_ready
kill -STOP "$SERVER"
for file in "$TEST_TMP"/ready*; do
	kill -9 "${file##*ready}"
	assert_gone_soon "${file##*ready}"
done
kill -CONT "$SERVER"
wait_until 10 status_is "s['open_handles'] == 0 and s['requests']['in_flight'] == 0"
assert_eq "$(stat -c %s "$MNT/f49")" 5000
umount_ckptfs
