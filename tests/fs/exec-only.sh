#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that may be executed but not read runs for every user, and is not readable all the same; scripts, shared
# libraries and a running program that is replaced work.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv
mount_ckptfs
cp /usr/bin/id "$MNT/program"
chmod 111 "$MNT/program"
assert_eq "$(as_user 1001 "$MNT/program" -u)" 1001
expect_fail as_user 1001 cat "$MNT/program"
# shellcheck disable=SC2016 # for the script
printf '#!/bin/sh\necho "script $1"\n' >"$MNT/script"
chmod 755 "$MNT/script"
assert_eq "$(as_user 1001 "$MNT/script" ran)" "script ran"
chmod 711 "$MNT/script"
expect_fail as_user 1001 "$MNT/script" ran # the shell cannot read it, as everywhere
cp /usr/bin/sleep "$MNT/busy"
"$MNT/busy" 1000 &
pid=$!
wait_until 10 grep -q busy "/proc/$pid/maps"
expect_fail sh -c "echo x >>$MNT/busy"
assert_contains "$OUT" "Text file busy"
cp /usr/bin/sleep "$MNT/new"
expect_ok mv "$MNT/new" "$MNT/busy"
expect_ok kill "$pid"
umount_ckptfs
