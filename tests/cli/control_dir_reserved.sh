#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Nobody, root included, can write, create, remove or replace anything of the control directory.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir "$MNT/dir"
echo data >"$MNT/file"
control=$MNT/.ckptfs

# refuses ERRNO CALL: a Python call of os fails with that error.
refuses() {
	expect_ok python3 -c '
import errno, os, sys
mnt, c = sys.argv[1], sys.argv[1] + "/.ckptfs"
try:
	eval(sys.argv[3])
except OSError as e:
	assert e.errno in [getattr(errno, n) for n in sys.argv[2].split("|")], e
else:
	sys.exit("possible: " + sys.argv[3])
' "$MNT" "$1" "$2"
}

refuses EEXIST 'os.mkdir(c)'
refuses EPERM 'os.rmdir(c)'
refuses EPERM 'os.rename(c, mnt + "/other")'
refuses EPERM 'os.rename(mnt + "/dir", c)'
refuses "EPERM|EISDIR|ENOTDIR" 'os.rename(mnt + "/file", c)'
refuses EEXIST 'os.symlink("x", c)'
refuses EEXIST 'os.link(mnt + "/file", c)'
if [ "$(id -u)" = 0 ]; then
	refuses EPERM 'os.mkdir(c + "/new")'
	refuses EPERM 'os.open(c + "/new", os.O_CREAT | os.O_WRONLY)'
	refuses EPERM 'os.symlink("x", c + "/new")'
	refuses EPERM 'os.mkfifo(c + "/new")'
	refuses "EPERM|EXDEV" 'os.link(mnt + "/file", c + "/new")'
	refuses EPERM 'os.unlink(c + "/status.json")'
	refuses EPERM 'os.rename(c + "/status.json", mnt + "/stolen")'
	refuses EPERM 'os.rename(mnt + "/file", c + "/status.json")'
	refuses EPERM 'os.rename(mnt + "/file", c + "/new")'
fi
for flags in WRONLY RDWR 'WRONLY | os.O_TRUNC' 'RDONLY | os.O_TRUNC'; do
	refuses "EACCES|EPERM" "os.open(c + '/status.json', os.O_$flags)"
done
refuses "EACCES|EPERM" 'os.truncate(c + "/status.json", 0)'
refuses "EACCES|EPERM" 'os.chmod(c, 0o777)'
refuses "EACCES|EPERM" 'os.chmod(c + "/status.json", 0o666)'
refuses "EACCES|EPERM" 'os.chown(c + "/status.json", 1001, 1001)'
refuses "EACCES|EPERM" 'os.utime(c, (1, 1))'
refuses "EACCES|EPERM|EOPNOTSUPP" 'os.setxattr(c, "user.a", b"b")'
assert_eq "$(ls -A "$control")" $'config.json\nfailures.json\nmetrics\nstatus.json\ntrace.json'
assert_eq "$(ls -A "$MNT")" $'dir\nfile'
value 'x' "$(cat "$control/status.json")" >/dev/null
# These are the callers' mistakes, not failures of the backing.
assert_eq "$(value 'x' "$(cat "$control/failures.json")")" "[]"
rm -rf "$MNT" 2>/dev/null # all else goes
assert_eq "$(ls -A "$MNT")" "" "the mount"
stat "$control/status.json" "$BACK/.ckptfs/version.json" >/dev/null || die "rm -rf removed the control directory"
umount_ckptfs
