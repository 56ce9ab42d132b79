#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that dies while it writes a checkpoint leaves the old one whole, in whatever way it dies; the failure is
# told, and the next save works. One that ends well, or goes on, has saved.
#
# timeout: 120
# cpu: 25
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
WRITER=$BUILD/tests/helpers/writer
ulimit -c 0

# old_one KIND: KIND.pt is as it was before, in the mount and on the backing, and nothing is left of the save.
old_one() {
	expect_ok cmp "$TEST_TMP/old" "$MNT/$1.pt"
	expect_ok cmp "$TEST_TMP/old" "$BACK/$1.pt"
	expect_ok "$CKPTFS" verify "$BACK/$1.pt"
	assert_eq "$(find "$BACK" -name '.ckptfs-*')" "" "left behind by $1"
	wait_until 10 status_is "s['cache']['dirty'] == s['cache']['flying'] == 0"
}

# begin KIND: a file for it. It is short, since the writer does not cut it: what replaces it begins as a copy.
begin() {
	expect_ok cp "$TEST_TMP/old" "$MNT/$1.pt"
	all_published
}

# fails KIND TEXT: told of that file alone, and only once.
fails() {
	begin "$1"
	run timeout -s KILL 20 "$WRITER" "$1" "$MNT/$1.pt"
	all_published
	NR=$((NR + 1))
	status_is "s['failures'] == $NR" || die "status after $1: $(status_of "s['failures']")"
	assert_eq "$(failures_of "[(x['op'], x['errno'], x['count'], x['uid']) for x in f if x['path'] == '$1.pt']")" \
		"[('save', 'EIO', 1, 0)]"
	assert_contains "$(failures_of "f[-1]['message']")" "$2" "failure of $1"
	assert_contains "$(failures_of "f[-1]['message']")" "What had the name '$1.pt' before is whole and still has it"
	old_one "$1"
	expect_ok cp "$TEST_TMP/zeros" "$MNT/$1.pt"
	all_published
	expect_ok cmp "$TEST_TMP/zeros" "$BACK/$1.pt"
}

# saves KIND
saves() {
	begin "$1"
	run timeout -s KILL 20 "$WRITER" "$1" "$MNT/$1.pt"
	[ "$RC" -lt 99 ] || die "$1: $RC $OUT"
	all_published
	expect_ok cmp "$TEST_TMP/zeros" "$BACK/$1.pt"
	expect_ok cmp "$TEST_TMP/zeros" "$MNT/$1.pt"
	expect_ok "$CKPTFS" verify "$BACK/$1.pt"
	status_is "s['failures'] == $NR" || die "$1 failed: $(failures_of f)"
}

NR=0
head -c 10000 /dev/urandom >"$TEST_TMP/old"
head -c 10000 /dev/zero >"$TEST_TMP/zeros"
mount_ckptfs "$TEST_TMP/disk"
fails sigkill "was killed by signal 9 (Killed)"
fails sigterm "was killed by signal 15 (Terminated)"
fails sigsegv "was killed by signal 11 (Segmentation fault)"
fails core "was killed by signal 6 (Aborted)"
fails exit1 "ended with exit status 1 while it had the file open"
fails threads-exit3 "ended with exit status 3 while it had the file open"
fails threads-sigkill "was killed by signal 9"
fails leaderless-sigkill "was killed by signal 9"
fails parent-killed "was killed by signal 9"
fails exec-kept-fails "ended with exit status 1 while it had the file open"
for kind in close exit0 leaderless-exit0 nodump-exit0 exec exec-thread exec-kept fork-close fork-exit0 fork-sigkill \
	fork-exec system system-fails system-cloexec spawn spawn-cloexec; do
	saves "$kind"
done
rm "$MNT"/*.pt

# Where there was nothing, there is nothing afterwards.
run "$WRITER" sigkill "$MNT/new.pt"
all_published
[ ! -e "$MNT/new.pt" ] && [ ! -e "$BACK/new.pt" ] || die "a new file of a killed writer"
expect_ok "$WRITER" close "$MNT/new.pt"
all_published
expect_ok cmp "$TEST_TMP/zeros" "$BACK/new.pt"

# Under a temporary name; and after that was renamed.
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
old, new = data(1, MB + 3), data(2, 2 * MB + 5)
save(x, old)
published()

def dies(how):
	"""A process that is killed when how() returns."""
	pid = child(lambda: how() or os.kill(os.getpid(), signal.SIGKILL))
	assert reap(pid) == -9
	published()

def old_one():
	assert read(x) == old == read(on_backing)
	wait(lambda: names(back) == [".ckptfs", "new.pt", "x.pt"]) # what it had staged goes after it was told
	verify(on_backing)

def begin(path, part=new[:MB], flags=os.O_TRUNC):
	fd = os.open(path, os.O_CREAT | os.O_RDWR | flags)
	if part:
		os.write(fd, part)
	return fd

nr = len(failures())
dies(lambda: begin(mnt + "/x.pt.tmp") and None)
old_one()
assert failures()[-1]["path"] == "x.pt.tmp"
dies(lambda: begin(mnt + "/x.pt.tmp") and os.rename(mnt + "/x.pt.tmp", x))
old_one()
assert failures()[-1]["path"] == "x.pt"
dies(lambda: os.fsync(begin(x)))
old_one()
dies(lambda: begin(x, b"") and None) # before the first byte
old_one()
dies(lambda: begin(x, b"short", 0) and None) # in the middle of a change in place
old_one()
dies(lambda: os.ftruncate(begin(x, b"", 0), 100))
old_one()
dies(lambda: os.posix_fallocate(begin(x, b"", 0), 0, 5 * MB))
old_one()
def by_copy():
	fd, source = begin(x, b""), os.open(x[:-4] + "new.pt", os.O_RDONLY)
	assert os.copy_file_range(source, fd, 5000) == 5000
dies(by_copy)
old_one()
def by_store():
	fd = begin(x, b"", 0)
	m = mmap.mmap(fd, len(old))
	m[:5] = b"store"
	by_store.m = m
dies(by_store)
old_one()
known = len(failures())
dies(lambda: begin(x, b"", 0) and None) # changes nothing, so nothing is lost
old_one()
assert len(failures()) == known

# Closed is closed, whatever becomes of the program then.
dies(lambda: os.close(begin(x, new)))
assert read(x) == new == read(on_backing)
verify(on_backing)
assert all(f["errno"] == "EIO" for f in failures()), failures()

# In the middle of many writes; the others of the mount notice nothing.
for round in range(10):
	save(x, old)
	published()
	r, w = os.pipe()
	def write_on():
		fd = begin(x, b"")
		n = 0
		while True:
			os.pwrite(fd, new[:100000], n % 50 * 100000)
			os.write(w, b"x")
			n += 1
	pid = child(write_on)
	os.read(r, 1 + round)
	save(mnt + "/other.pt", data(round, MB))
	os.kill(pid, signal.SIGKILL)
	assert reap(pid) == -9
	published()
	assert read(x) == old == read(on_backing), round
	assert read(back + "/other.pt") == data(round, MB)
	rm(mnt + "/other.pt")
	os.close(r)
	os.close(w)
old_one()

# Who goes on with a file that another's death failed gets the error, and its next save works.
fd = begin(x)
pid = child(lambda: os.write(fd, b"child") and os.kill(os.getpid(), signal.SIGKILL))
assert reap(pid) == -9
fails(errno.EIO, os.write, fd, b"parent")
fails(errno.EIO, os.fsync, fd)
try:
	os.close(fd)
except OSError as e:
	assert e.errno == errno.EIO
old_one()
save(x, new)
published()
assert read(on_backing) == new
verify(on_backing)

# Ordinary files are what their dead writers left.
dies(lambda: begin(mnt + "/plain") and None)
assert read(back + "/plain") == new[:MB]
END
umount_ckptfs

# A daemon that may not know how a program of somebody else ended takes no end for a good one.
needs setpriv
setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace true || skip "cannot drop CAP_SYS_PTRACE"
expect_ok setpriv --bounding-set=-sys_ptrace "$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/disk" "$MNT"
NR=0
fails exit0 "and its exit status cannot be read here"
fails sigkill "and its exit status cannot be read here"
saves close
umount_ckptfs
