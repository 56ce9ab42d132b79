#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing whose disk fails at once (ext4 and xfs shut down): each call through the mount gives the errno that a
# plain directory gives; the daemon stays, and lists the failures.
#
# timeout: 90
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

# What calls on files that are open already, and on new ones, give after the shutdown of the filesystem at $1.
cat >"$TEST_TMP/calls.py" <<'END'
import errno, fcntl, mmap, os, struct, sys
top, back = sys.argv[1:]
os.chdir(top)
def opened(name, flags=os.O_RDWR):
	fd = os.open(name, os.O_CREAT | flags, 0o644)
	os.write(fd, b"z" * 100000) if flags != os.O_RDONLY else 0
	return fd
a, b, c = opened("a"), opened("b"), opened("c", os.O_WRONLY)
os.mkdir("d")
os.fsync(a)
calls = {
	"write": lambda: os.pwrite(a, b"y" * 10, 0), "append": lambda: os.pwrite(a, b"y" * 5000, 100000),
	"fsync": lambda: os.fsync(a), "fdatasync": lambda: os.fdatasync(b), "fstat": lambda: os.fstat(a).st_size,
	"ftruncate": lambda: os.ftruncate(a, 5), "create": lambda: os.open("new", os.O_CREAT | os.O_WRONLY),
	"mkdir": lambda: os.mkdir("e"), "rename": lambda: os.rename("a", "z"), "unlink": lambda: os.unlink("b"),
	"rmdir": lambda: os.rmdir("d"), "chmod": lambda: os.chmod("a", 0o600), "symlink": lambda: os.symlink("x", "y"),
	"link": lambda: os.link("a", "l"), "fallocate": lambda: os.posix_fallocate(a, 0, 1 << 20),
	"setxattr": lambda: os.setxattr("a", "user.x", b"1"), "utime": lambda: os.utime("a", (1, 1)),
	"close": lambda: os.close(c),
}
fcntl.ioctl(os.open(back, os.O_RDONLY), 0x8004587d, struct.pack("I", 1)) # GOINGDOWN, log flushed
for name, call in calls.items():
	try:
		call()
		print(name, "ok")
	except OSError as e:
		print(name, errno.errorcode[e.errno])
END

die_under() {
	local kind=$1 where results=()
	for where in plain mounted; do
		loop_fs "$kind" 64 "$TEST_TMP/$kind.$where"
		if [ "$where" = plain ]; then
			MNT=$TEST_TMP/$kind.plain
		else
			mount_ckptfs "$TEST_TMP/$kind.mounted" "$TEST_TMP/mnt.$kind"
		fi
		run "$PYTHON" "$TEST_TMP/calls.py" "$MNT" "$TEST_TMP/$kind.$where"
		results+=("$OUT")
		assert_eq "$RC" 0 "$OUT"
	done
	if ! status_is "s['features']['xattr'] == 'yes'"; then
		results=("${results[@]/setxattr EIO/setxattr ENOTSUP}")
	fi
	assert_eq "${results[1]}" "${results[0]}" "errnos on $kind: mounted, plain"
	assert_contains "${results[0]}" "fsync EIO"
	expect_ok timeout 2 "$CKPTFS" status "$MNT"
	assert_contains "$OUT" "of 'a' failed on the backing: Input/output error"
	umount_ckptfs
}

needs_fuse
die_under ext4
die_under xfs
