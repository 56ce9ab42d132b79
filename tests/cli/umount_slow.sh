#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that takes its time to unmount is waited for, up to --timeout; then umount says what is going on.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs cc
cd "$TEST_TMP" || die "cannot enter"
# umount2 that takes 3 seconds, and in a directory with "hold" until that is gone.
cat >slow.c <<'END'
#include <dlfcn.h>
#include <unistd.h>

int umount2(const char *path, int flags)
{
	static int (*real)(const char *, int);

	real = (int (*)(const char *, int))dlsym(RTLD_NEXT, "umount2");
	usleep(3000000);
	while (!access(HOLD, F_OK))
		usleep(10000);
	return real(path, flags);
}
END
expect_ok cc -D_GNU_SOURCE -DHOLD="\"$TEST_TMP/hold\"" -shared -fPIC -o slow.so slow.c

# mount_slow: mount with such a daemon.
mount_slow() {
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 LD_PRELOAD=$TEST_TMP/slow.so mount_ckptfs
	daemon=$(daemon_pid)
}

mount_slow
expect_ok timeout 30 "$CKPTFS" umount "$MNT"
assert_eq "$OUT" ""
! is_mounted || die "still mounted"
_gone "$daemon" || die "the daemon lives"

mount_slow
touch hold
run timeout 30 "$CKPTFS" umount --timeout 2 "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "the daemon of $MNT (pid $daemon) has been unmounting it for 2 s and goes on with that"
is_mounted || die "not mounted any more"
rm hold
wait_until 20 _gone "$daemon"
! is_mounted || die "still mounted"
