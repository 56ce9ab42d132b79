#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A line in fstab is enough for `mount MOUNTPOINT`, with blanks in the names written as fstab wants.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

install_helper
BACK="$TEST_TMP/the back" MNT="$TEST_TMP/the mnt"
mkdir "$BACK" "$MNT"
printf '%s %s ckptfs %s 0 0\n' "${BACK// /\\040}" "${MNT// /\\040}" \
	defaults,noauto,nofail,_netdev,x-systemd.mount-timeout=30,node=n9 >"$TEST_TMP/fstab"
expect_ok mount --fstab "$TEST_TMP/fstab" "$MNT"
echo data >"$MNT/file"
assert_eq "$(cat "$BACK/file")" data
assert_eq "$(status_of 'x["node"]')" n9
expect_ok umount "$MNT"
wait_until 10 no_daemons_but
