#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Several processes save one name at the same time: none gets an error that a plain filesystem would not give it, and
# what is there in the end is what one of them saved, whole.
#
# needs: root
# long: 60
# cpu: 20

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 300 "$TEST_TMP/disk"

openers() {
	mount_ckptfs -o "$1" "$TEST_TMP/disk"
	program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
NR, ROUNDS = 8, 8 if is_long else 2

def content(nr, size=MB):
	return data(nr, size)

def all_at_once(main, rounds=ROUNDS):
	"""main(who, round) in NR processes, which begin each round together. Their exit statuses."""
	start = [os.pipe() for _ in range(rounds)]
	ready = os.pipe()
	def run(who):
		good = True
		for pipe in start:
			os.close(pipe[1])
		for round in range(rounds):
			os.write(ready[1], b"x")
			os.read(start[round][0], 1)
			try:
				main(who, round)
			except (OSError, AssertionError):
				traceback.print_exc()
				good = False
		assert good
	pids = [child(lambda who=who: run(who)) for who in range(NR)]
	for round in range(rounds):
		for _ in range(NR):
			os.read(ready[0], 1)
		os.close(start[round][1])
	ends = [reap(pid) for pid in pids]
	for pipe in start:
		os.close(pipe[0])
	assert ends == [0] * NR, ends

def one_of(sizes=(MB,)):
	"""What is there, is published, and is that of one of them, whole."""
	wait_for(x)
	published()
	got = read(x)
	assert got == read(on_backing), "the mount shows another"
	assert any(got == content(who, size) for who in range(NR) for size in sizes), len(got)
	"user.ckptfs.xxh3" in os.listxattr(on_backing) and verify(on_backing)
	assert names() == ["x.pt"] and not staging(), (names(), staging())

# Over each other, with one write, in place; the file is there, and not.
for there in True, False:
	for flags in os.O_TRUNC | os.O_CREAT | os.O_WRONLY, os.O_TRUNC | os.O_CREAT | os.O_RDWR:
		def write_at_once(who, _):
			fd = os.open(x, flags)
			assert os.write(fd, content(who)) == MB
			os.close(fd)
		if not there and os.path.exists(x):
			os.unlink(x)
		all_at_once(write_at_once)
		one_of()

# Each under a temporary name of its own.
def replace_own(who, _):
	save("%s/%d.pt" % (mnt, who), content(who, MB + who))
	os.replace("%s/%d.pt" % (mnt, who), x)
all_at_once(replace_own)
one_of([MB + who for who in range(NR)])

# Exclusively: one of them makes it.
os.unlink(x)
made = os.pipe()
def exclusively(who, _):
	try:
		fd = os.open(x, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
	except FileExistsError:
		return
	os.write(made[1], b"x")
	os.write(fd, content(who))
	os.close(fd)
all_at_once(exclusively, 1)
assert os.read(made[0], NR) == b"x"
one_of()

# One saves, others read, remove, rename and look meanwhile. What is not there is not there; else nothing fails.
def mixed(who, round):
	for nr in range(20):
		try:
			if who < 2:
				save("%s/mine%d.pt" % (mnt, who), content(who))
				os.replace("%s/mine%d.pt" % (mnt, who), x)
			elif who == 2:
				os.unlink(x)
			elif who == 3:
				os.replace(x, mnt + "/y.pt")
			elif who == 4:
				os.stat(x)
			else:
				got = read(x)
				assert got in (content(0), content(1)), len(got)
		except FileNotFoundError:
			assert who >= 2, "the saver's own file is gone"
save(x, content(0))
all_at_once(mixed, 2)
os.path.exists(mnt + "/y.pt") and os.unlink(mnt + "/y.pt")
save(x, content(0))
one_of()

# Into one file, each to a part of its own, as ranks do.
os.unlink(x)
def part(who, round):
	fd = os.open(x, os.O_CREAT | os.O_WRONLY)
	for at in range(0, MB, 100000):
		os.pwrite(fd, content(who)[at:at + 100000], who * MB + at)
	os.close(fd)
all_at_once(part, 3)
wait_for(x)
assert read(on_backing) == b"".join(map(content, range(NR))) == read(x)
verify(on_backing)
assert failures() == [], failures()
END
	umount_ckptfs
	rm -f "$TEST_TMP/disk/"*.pt
}

openers host_cache_size=64M
openers host_cache_size=8M
