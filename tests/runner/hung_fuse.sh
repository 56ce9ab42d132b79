#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# needs: root
# A FUSE daemon that waits for itself cannot be killed until its connection is aborted; the runner does that.

. "${SRC:?}/tests/runner/tree.sh"

needs_fuse
needs python3

make_test a/hung.sh <<'END'
# timeout: 2
mkdir mnt
exec python3 "$SRC/tests/a/hung_daemon.py" "$TEST_TMP/mnt"
END
# One thread stats its own mount; the other takes the request and never answers. SIGKILL ends the second, while
# the first, whose request is in the daemon's hands, waits on and holds /dev/fuse open.
cat >"$TREE/tests/a/hung_daemon.py" <<'END'
import ctypes, os, struct, sys, threading

fd = os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % fd
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hung", sys.argv[1].encode(), b"fuse", 0, options.encode()) != 0:
	sys.exit(os.strerror(ctypes.get_errno()))
unique = struct.unpack_from("<IIQ", os.read(fd, 1 << 20))[2]
init = struct.pack("<IIIIHHIIHH", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0) + bytes(28)
os.write(fd, struct.pack("<IiQ", 16 + len(init), 0, unique) + init)
threading.Thread(target=os.stat, args=(sys.argv[1],)).start()
os.read(fd, 1 << 20)
print("request taken", flush=True)
threading.Event().wait()
END
run_tree -j 1
assert_contains "$OUT" "request taken"
assert_contains "$OUT" "timed out after 2 s"
assert_contains "$OUT" "fuse"
[[ $OUT != *"could not be killed"* ]] || die "the connection was not aborted"$'\n'"$OUT"
assert_closing "0 passed, 1 failed, 0 skipped"
assert_nothing_left
