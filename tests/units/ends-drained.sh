#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# However a mount ends, all that was closed before is on the backing when its daemon has ended, whatever way it was
# saved; umount returns only then, and tells how far it is where that takes its time.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 256 "$TEST_TMP/disk"

cat >"$TEST_TMP/files.py" <<'END'
from units import *

end = sys.argv[1]
files = ["%s-%d.%s" % (end, nr, "bin" if nr == 1 else "pt") for nr in range(8)] + ["over.pt"]
def content(nr):
	return data(end + str(nr), (MB + 333333) * (nr % 3) + nr)
END

saves() {
	program "$1" <<END
$(cat "$TEST_TMP/files.py")
for nr, name in enumerate(files):
	path = mnt + "/" + name
	how = nr % 4
	if how == 0: # as programs do it that go on
		save(path, content(nr))
	elif how == 1: # that end
		assert reap(child(lambda: save(path, content(nr)))) == 0
	elif how == 2:
		save(path + ".tmp", content(nr))
		os.rename(path + ".tmp", path)
	else: # that exit without a close
		assert reap(child(lambda: os.write(os.open(path, os.O_CREAT | os.O_WRONLY), content(nr)))) == 0
assert pending(), "all are published already"
END
}

saved() {
	assert_eq "$(grep -c " $MNT " /proc/self/mountinfo)" 0 "mounts at $MNT"
	MNT=$BACK
	program "$1" <<END
$(cat "$TEST_TMP/files.py")
for nr, name in enumerate(files):
	assert read(back + "/" + name) == content(nr), name
	name.endswith(".bin") or verify(back + "/" + name)
assert not staging()
END
}

for end in ckptfs-umount TERM HUP umount; do
	bandwidth=8M
	[ "$end" != ckptfs-umount ] || bandwidth=3M
	mount_ckptfs -o "flush_bw=$bandwidth" "$TEST_TMP/disk"
	daemon=$(daemon_pid)
	saves "$end"
	case $end in
	ckptfs-umount)
		umount_ckptfs
		_gone "$daemon" || die "the daemon goes on"
		assert_contains "$OUT" "files left to save"
		;;
	umount) expect_ok umount "$MNT" ;;
	*) kill -s "$end" "$daemon" ;;
	esac
	wait_until 20 _gone "$daemon"
	saved "$end"
done

# Asked to end while a save is under way: when that is closed, it is saved, too.
mount_ckptfs -o flush_bw=16M "$TEST_TMP/disk"
daemon=$(daemon_pid)
exec 5>"$MNT/late.pt"
head -c 1000000 "$TEST_TMP/disk/TERM-2.pt" >&5
kill "$daemon"
detached() {
	! grep -q " $MNT " /proc/self/mountinfo
}
wait_until 10 detached
head -c 1000000 "$TEST_TMP/disk/TERM-2.pt" >&5
exec 5>&-
wait_until 20 _gone "$daemon"
head -c 1000000 "$BACK/TERM-2.pt" >"$TEST_TMP/part"
expect_ok cmp "$BACK/late.pt" <(cat "$TEST_TMP/part" "$TEST_TMP/part")
expect_ok "$CKPTFS" verify "$BACK"
assert_eq "$(find "$BACK" -name '.ckptfs-*')" "" "left on the backing"
