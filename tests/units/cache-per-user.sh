#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# With cache_per_uid a user whose storage is stuck fills up a share of the cache, not all: others save and read as ever.
# After stall_timeout_s whoever waits for room gets an error, and the old files are whole.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs setpriv
# One directory of the backing lies on storage that gets stuck, another on its own.
mkdir -p "$TEST_TMP/back"
gated_fs 160 "$TEST_TMP/back/stuck"
mkdir -m 777 "$TEST_TMP/back/fine"
chmod 777 "$TEST_TMP/back/stuck"
mount_ckptfs -o cache_per_uid=8M,host_cache_size=32M,stall_timeout_s=3
program <<'END'
from units import *

old, new = data(1, 2 * MB), data(2, 20 * MB)
stuck, fine = mnt + "/stuck/x.pt", mnt + "/fine/x.pt"

def as_user(uid, main):
	def run():
		os.setgroups([])
		os.setgid(uid)
		os.setuid(uid)
		main()
	return child(run)

def fills_up():
	"""Gets an error when the share has been full for stall_timeout_s, and again at the end."""
	fd = os.open(stuck, os.O_WRONLY | os.O_TRUNC)
	for at in range(0, len(new), MB):
		try:
			os.write(fd, new[at:at + MB])
		except OSError as e:
			assert e.errno == errno.ETIMEDOUT, e
			break
	else:
		raise AssertionError("no write failed")
	assert at >= 4 * MB, at
	fails(errno.ETIMEDOUT, os.write, fd, b"more")
	fails(errno.ETIMEDOUT, os.fsync, fd)
	fails(errno.ETIMEDOUT, os.close, fd)

assert reap(as_user(1200, lambda: save(stuck, old))) == 0
assert reap(as_user(1300, lambda: save(fine, old))) == 0
published()
assert read(back + "/stuck/x.pt") == old # which has it in memory from now on
with gate_closed():
	filler = as_user(1200, fills_up)
	wait(lambda: status()["cache"]["waiting"])
	# Meanwhile another user saves much more than there is room for.
	assert reap(as_user(1300, lambda: save(fine, new * 3))) == 0
	assert read(fine) == new * 3
	wait(lambda: "fine/x.pt" not in pending())
	assert read(back + "/fine/x.pt") == new * 3
	verify(back + "/fine/x.pt")
	assert reap(filler) == 0
	assert read(back + "/stuck/x.pt") == old == read(stuck)
	listed = failures()
	assert [(f["path"], f["errno"], f["uid"]) for f in listed if f["op"] == "save"] == \
		[("stuck/x.pt", "ETIMEDOUT", 1200)], listed
	# Still stuck: the user's next save finds room, for what failed is gone from the cache, as far as it was not on its way.
published()
wait(lambda: status()["cache"]["dirty"] == status()["cache"]["flying"] == 0)
assert read(back + "/stuck/x.pt") == old and not staging(back + "/stuck")
assert reap(as_user(1200, lambda: save(stuck, new))) == 0
published()
assert read(back + "/stuck/x.pt") == new
verify(back + "/stuck/x.pt")
END
umount_ckptfs
