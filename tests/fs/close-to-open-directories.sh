#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two mounts of one backing: what one does to a directory (move, remove, make anew, chmod) the other sees within a
# second or so, the time for which a directory is trusted as a step of a path.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
A=$MNT
mount_ckptfs "$BACK" "$TEST_TMP/second"
B=$MNT
seen() {
	[ "$(ls "$B/d")" = "$1" ]
}
mode_is() {
	[ "$(stat -c %a "$B/d")" = "$1" ]
}
mkdir "$A/d"
touch "$A/d/x"
wait_until 5 seen x
rm -r "$A/d"
mkdir "$A/d"
touch "$A/d/y"
wait_until 5 seen y
chmod 711 "$A/d"
wait_until 5 mode_is 711
mv "$A/d" "$A/e"
mkdir "$A/d"
wait_until 5 seen ""
assert_eq "$(ls "$B/e")" y
touch "$B/d/z"
assert_eq "$(ls "$A/d" "$A/e")" "$A/d:"$'\n'z$'\n\n'"$A/e:"$'\n'y
rm "$A/d/z"
rmdir "$A/d"
wait_until 5 test ! -e "$B/d"
umount_ckptfs "$B"
umount_ckptfs "$A"
