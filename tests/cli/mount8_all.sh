#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What mount(8) and umount(8) do beyond one mount: `mount -a` again and again, with _netdev; a remount takes the options
# that fstab repeats; `umount` returns when all is saved, names who uses the mount, and takes -f and -l.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

install_helpers
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
fstab=$TEST_TMP/fstab
echo "$BACK $MNT ckptfs _netdev,nofail,host_cache_size=64M,flush_bw=4M 0 0" >"$fstab"
expect_ok mount --fstab "$fstab" -a -O no_netdev
! is_mounted || die "mounted before the network"
expect_ok mount --fstab "$fstab" -a -O _netdev
daemon=$(daemon_pid)
expect_ok mount --fstab "$fstab" -a -v
assert_contains "$OUT" "$MNT: already mounted"

# What fstab or mountinfo repeats is no change; cli/remount.sh has the rest.
for how in "--fstab $fstab -o remount,ro $MNT" "-o remount,ro $MNT" "-t ckptfs -o remount,ro $BACK $MNT"; do
	# shellcheck disable=SC2086 # words
	expect_ok mount $how
	assert_eq "$(status_of 'x["read_only"]')" True "after mount $how"
	# shellcheck disable=SC2086 # words
	expect_ok mount ${how/remount,ro/remount,rw}
	assert_eq "$(status_of 'x["read_only"]')" False "after mount ${how/remount,ro/remount,rw}"
done
assert_eq "$(daemon_pid)" "$daemon"

# In use.
hold "$(touch "$MNT/held" && echo "$MNT/held")"
run umount "$MNT"
assert_eq "$RC" 32 "$OUT"
assert_contains "$OUT" "is in use by holder (pid $HOLDER). It stays mounted"
expect_ok "$CKPTFS" status "$MNT"
quit "$HOLDER"

head -c 8000000 /dev/urandom >"$TEST_TMP/bytes"
cp "$TEST_TMP/bytes" "$MNT/x.pt"
[ ! -e "$BACK/x.pt" ] || die "the flush was meant to take a while"
expect_ok umount "$MNT"
cmp "$BACK/x.pt" "$TEST_TMP/bytes" || die "not saved when umount returned"
_gone "$daemon" || die "the daemon lives"

expect_ok mount -t fuse.ckptfs -o host_cache_size=64M "$BACK" "$MNT"
hold "$MNT/held"
daemon=$(daemon_pid)
expect_ok umount -l "$MNT"
! is_mounted || die "still mounted"
! _gone "$daemon" || die "the daemon has ended before the last open file"
quit "$HOLDER"
wait_until 10 _gone "$daemon"
expect_ok mount -t ckptfs -o host_cache_size=64M "$BACK" "$MNT"
hold "$MNT/held"
expect_ok umount -f "$MNT"
! is_mounted || die "still mounted"
quit "$HOLDER"

helper=$SRC/mount-scripts/umount.ckptfs
expect_fail "$helper" "$MNT"
assert_contains "$OUT" "is not on a ckptfs mount"
expect_fail "$helper" "$MNT" -N 1
assert_contains "$OUT" "-N is not supported"
for arguments in "" "-f" "$MNT -Z"; do
	# shellcheck disable=SC2086 # words
	expect_fail "$helper" $arguments
	assert_contains "$OUT" "usage: umount.fuse.ckptfs MOUNTPOINT"
done
run env -u CKPTFS PATH=/nonexistent "$(command -v sh)" "$helper" "$MNT"
[ "$RC" = 0 ] || assert_contains "$OUT" "umount.fuse.ckptfs: "
