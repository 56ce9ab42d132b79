#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A FLUSH answered in its server's place, so that the kernel releases the file before the server comes to it: the
# daemon does not use what is gone. Once with servers that are held just there, once with many killed processes.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs cc
# Freed memory is not what it was.
export MALLOC_PERTURB_=165

# Processes with three written files open each; prints their pids.
cat >"$TEST_TMP/holders.py" <<'END'
import os, signal, sys
for n in range(int(sys.argv[2])):
	pid = os.fork()
	if pid == 0:
		files = [os.open(f"{sys.argv[1]}/f{n}.{i}", os.O_CREAT | os.O_WRONLY) for i in range(3)]
		for fd in files:
			os.write(fd, b"x" * 5000)
		os.close(1)
		signal.pause()
	print(pid)
END

# Each FLUSH (25) waits for as long as the file at $HOLD_FLUSH is there, before libfuse is given it.
cat >"$TEST_TMP/hold.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
struct fuse_buf { size_t size; int flags; void *mem; };
void fuse_session_process_buf(void *se, const struct fuse_buf *buf)
{
	void (*next)(void *, const struct fuse_buf *) = dlsym(RTLD_NEXT, "fuse_session_process_buf");
	const struct timespec nap = {0, 5000000};
	while (((uint32_t *)buf->mem)[1] == 25 && !access(getenv("HOLD_FLUSH"), F_OK))
		nanosleep(&nap, NULL);
	next(se, buf);
}
END
expect_ok cc -shared -fPIC -o "$TEST_TMP/hold.so" "$TEST_TMP/hold.c" -ldl

HOLDERS=()
start_holders() { # returns when each has closed its output
	mapfile -t HOLDERS < <("$PYTHON" "$TEST_TMP/holders.py" "$MNT" "$1")
	assert_eq "${#HOLDERS[@]}" "$1" "number of holders"
}

# --- servers that come to it late ---

# ASan wants to be the first library, which does not matter here.
HOLD_FLUSH=$TEST_TMP/hold LD_PRELOAD=$TEST_TMP/hold.so \
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 \
	mount_ckptfs "$TEST_TMP/back" "$TEST_TMP/mnt1"
pid=$(daemon_pid)
start_holders 8
touch "$TEST_TMP/hold"
kill -9 "${HOLDERS[@]}"
assert_gone_soon "${HOLDERS[@]}"
wait_until 10 status_is "s['open_handles'] == 0"
wait_until 10 waits_in 1 # the servers still have them
rm "$TEST_TMP/hold"
wait_until 10 status_is "s['requests']['in_flight'] == 0"
assert_eq "$(daemon_pid)" "$pid" "pid of the daemon"
expect_ok touch "$MNT/works"
umount_ckptfs

# --- many of them ---

mergerfs_mount "$TEST_TMP/dir" "$TEST_TMP/served" # unlike bindfs it does something at close
mount_ckptfs "$TEST_TMP/served" "$TEST_TMP/mnt2"
pid=$(daemon_pid)
for round in 1 2; do
	start_holders 24
	kill -STOP "$SERVER"
	kill -9 "${HOLDERS[@]}"
	assert_gone_soon "${HOLDERS[@]}"
	kill -CONT "$SERVER"
	wait_until 20 status_is "s['requests']['in_flight'] == 0 and s['open_handles'] == 0"
	assert_eq "$(daemon_pid)" "$pid" "pid of the daemon in round $round"
done
assert_eq "$(stat -c %s "$MNT/f23.2")" 5000
umount_ckptfs
