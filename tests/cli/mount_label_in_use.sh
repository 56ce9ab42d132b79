#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A node label that is given is refused while another live mount of the host has it, and free again after that.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs -o node=gpu07
mkdir "$TEST_TMP/back2" "$TEST_TMP/mnt2"
first=$MNT
assert_eq "$(status_of 'x["node"]')" gpu07
refused 1 "the node label 'gpu07' is in use by another live mount of this host. Nothing was mounted" \
	-o node=gpu07 "$TEST_TMP/back2" "$TEST_TMP/mnt2"
[ ! -s "$TEST_TMP/back2/.ckptfs/version.json" ] || die "the backing was changed"
mount_ckptfs -o node=gpu08 "$TEST_TMP/back2" "$TEST_TMP/mnt2"
umount_ckptfs
umount_ckptfs "$first"
mount_ckptfs -o node=gpu07
kill9_and_reaped "$(daemon_pid)" 10
mount_ckptfs -o node=gpu07
assert_eq "$(status_of 'x["node"]')" gpu07 "a label whose daemon was killed"
umount_ckptfs
