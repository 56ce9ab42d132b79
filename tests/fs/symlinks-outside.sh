#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Symlinks of the backing that point outside are followed by the caller's kernel in the caller's view, never by the
# daemon; while components of a path are swapped between directory and symlink, nothing outside is touched.
#
# timeout: 90
# cpu: 15
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv
mount_ckptfs
mkdir -p "$TEST_TMP/outside/dir" "$BACK/dir/sub"
chmod 700 "$TEST_TMP/outside" # for the daemon, which is root, but not for the caller
echo canary >"$TEST_TMP/outside/canary"
echo canary >"$TEST_TMP/outside/dir/canary"
chmod 777 "$BACK" "$BACK/dir" "$BACK/dir/sub"
ln -s "$TEST_TMP/outside/canary" "$BACK/absolute"
ln -s ../outside/canary "$BACK/relative"
ln -s "$TEST_TMP/outside" "$BACK/directory"
for name in absolute relative directory/canary; do
	expect_fail as_user 1001 cat "$MNT/$name"
	assert_contains "$OUT" "Permission denied"
	expect_fail as_user 1001 sh -c "echo broken >>$MNT/$name"
done
assert_eq "$(cat "$MNT/absolute")" canary "root's own view"
ln -s ../inside "$BACK/dir/up"
echo inside >"$BACK/inside"
assert_eq "$(as_user 1001 cat "$MNT/dir/up")" inside

# The race: an ordinary user swaps dir/sub with a symlink to the outside, others work below it.
before=$(find "$TEST_TMP/outside" -printf '%P %s %m %U %T@\n' | sort)
cat >"$TEST_TMP/race.py" <<'END'
import os, sys, time
mnt, back, outside = sys.argv[1:]
end = time.monotonic() + 6
pid = os.fork()
if not pid:
	while time.monotonic() < end:
		os.rename(back + "/dir/sub", back + "/dir/away")
		os.symlink(outside + "/dir", back + "/dir/sub")
		os.unlink(back + "/dir/sub")
		os.rename(back + "/dir/away", back + "/dir/sub")
		try: # the last component, too
			os.symlink(outside + "/canary", back + "/dir/sub/canary")
			os.unlink(back + "/dir/sub/canary")
		except OSError:
			pass
	os._exit(0)
workers = []
for k in range(3):
	worker = os.fork()
	if not worker:
		n = 0
		while time.monotonic() < end:
			p = mnt + "/dir/sub/"
			def create():
				fd = os.open(p + "canary", os.O_CREAT | os.O_RDWR)
				os.write(fd, b"broken")
				os.close(fd)
			for call in (create, lambda: os.unlink(p + "canary"), lambda: os.truncate(p + "canary", 0),
					lambda: os.chmod(p + "canary", 0o666), lambda: os.mkdir(p + "new"), lambda: os.rmdir(p + "new"),
					lambda: os.rename(p + "canary", p + "moved"), lambda: os.unlink(p + "moved"),
					lambda: os.setxattr(p + "canary", "user.x", b"1"), lambda: os.utime(p + "canary"),
					lambda: os.symlink("x", p + "link"), lambda: os.unlink(p + "link"), lambda: os.listdir(p)):
				try:
					call()
					n += 1
				except OSError:
					pass
		os._exit(0 if n > 100 else 1)
	workers.append(worker)
assert all(os.waitpid(w, 0)[1] == 0 for w in workers), "nothing worked at all"
os.waitpid(pid, 0)
END
expect_ok as_user 1001 "$PYTHON" "$TEST_TMP/race.py" "$MNT" "$BACK" "$TEST_TMP/outside"
assert_eq "$(find "$TEST_TMP/outside" -printf '%P %s %m %U %T@\n' | sort)" "$before" "what lies outside"
umount_ckptfs
