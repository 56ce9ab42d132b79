#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# With noatime no read through the mount changes an access time, whether the daemon or the kernel reads; without, it does
# as on the backing. Saves work as ever.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
BACK=$TEST_TMP/disk/back
old="2020-02-02 02:02:02.000000000 +0000"
mkdir -p "$BACK/dir/inner" "$BACK/theirs"
head -c 300000 /dev/urandom >"$BACK/dir/a.pt"
cp "$BACK/dir/a.pt" "$BACK/theirs/b.pt"
chmod 711 "$BACK/theirs"
chown -R 1001:1001 "$BACK/theirs"

# atimes: of what is read below.
atimes() {
	TZ=UTC stat -c %x "$BACK/dir" "$BACK/dir/a.pt" "$BACK/theirs/b.pt" | sort -u
}

# read_all: by read(2), by mmap, and the entries.
read_all() {
	touch -a -d "$old" "$BACK/dir" "$BACK/dir/a.pt" "$BACK/theirs/b.pt"
	cat "$MNT/dir/a.pt" "$MNT/theirs/b.pt" >/dev/null || die "cannot read"
	ls "$MNT/dir" >/dev/null
	python3 -c 'import mmap, sys
with open(sys.argv[1], "rb") as f:
	m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
	m[5], m[-1]' "$MNT/dir/a.pt" || die "cannot map"
}

for off in "" passthrough; do
	export CKPTFS_FEATURES_OFF=$off
	mount_ckptfs -o noatime "$BACK"
	assert_eq "$OUT" ""
	assert_contains ",$(findmnt -rn -o OPTIONS "$MNT")," ,noatime,
	read_all
	assert_eq "$(atimes)" "$old" "access times with noatime, without $off"
	assert_eq "$(TZ=UTC stat -c %x "$MNT/dir/a.pt")" "$old"
	cp "$MNT/dir/a.pt" "$MNT/new.pt"
	expect_ok "$CKPTFS" wait "$MNT/new.pt"
	mv "$MNT/new.pt" "$MNT/dir/new.pt"
	ln "$MNT/dir/a.pt" "$MNT/dir/link.pt"
	rm "$MNT/dir/new.pt" "$MNT/dir/link.pt"
	umount_ckptfs
	cmp "$BACK/dir/a.pt" "$BACK/theirs/b.pt" || die "changed"

	for option in atime relatime strictatime nodiratime; do
		mount_ckptfs -o "$option" "$BACK"
		read_all
		[[ $(atimes) != *2020* ]] || die "access times with $option: $(atimes)"
		umount_ckptfs
	done
done
unset CKPTFS_FEATURES_OFF

user_mount 1001 -o noatime
assert_contains "$OUT" "noatime has no effect on $BACK: "
as_user 1001 sh -c 'echo data >"$1"' - "$MNT/x.pt" || die "cannot save"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
