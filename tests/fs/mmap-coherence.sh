#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is open several times, whatever was opened first: what one handle writes, by write or by a shared
# mapping, every other sees at once, by read and by mapping, in this process and in another.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
export DIRECT_MMAP
DIRECT_MMAP=$(status_of "s['features']['direct_mmap']")
expect_ok "$PYTHON" - "$MNT" <<'END'
import itertools, mmap, os, subprocess, sys
SIZE = 3 * 4096
os.chdir(sys.argv[1])
# The other process: reads "read OFFSET" or "map OFFSET", answers with the byte there.
other = subprocess.Popen([sys.executable, "-c", """
import mmap, os, sys
fd = m = None
for line in sys.stdin:
	what, at = line.split()
	if what == "open":
		fd, m = os.open(at, os.O_RDONLY), None
	elif what == "close":
		m = None
		os.close(fd)
	elif what == "map":
		try:
			m = m or mmap.mmap(fd, 12288, prot=mmap.PROT_READ)
			sys.stdout.write("%d" % m[int(at)])
		except OSError:
			sys.stdout.write("-1")
	else:
		sys.stdout.write("%d" % os.pread(fd, 1, int(at))[0])
	print(flush=True)
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(what, at):
	other.stdin.write("%s %s\n" % (what, at))
	other.stdin.flush()
	return other.stdout.readline().strip()
modes = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
checked = unmapped = 0
for number, order in enumerate(itertools.chain(itertools.permutations(("r", "w", "rw", "other")),
		itertools.permutations(("r", "rw", "other")), (("r", "other", "w"), ("rw", "other"), ("rw", "rw", "r")))):
	name = "f%d" % number
	with open(name, "wb") as f:
		f.write(b"0" * SIZE)
	handles, maps = [], []
	for what in order:
		if what == "other":
			ask("open", name)
			continue
		fd = os.open(name, modes[what])
		handles.append((what, fd))
		if what != "w":
			prot = mmap.PROT_READ | (mmap.PROT_WRITE if what == "rw" else 0)
			try:
				maps.append((what, mmap.mmap(fd, SIZE, prot=prot)))
				maps[-1][1][5000] # a page of it is there before anything changes
			except OSError:
				assert os.environ["DIRECT_MMAP"] != "yes", (order, what)
				unmapped += 1
	value = 65
	def check(at, by):
		global checked
		for what, fd in handles:
			if what != "w":
				got = os.pread(fd, 1, at)[0]
				assert got == value, (order, by, "read by", what, at, got, value)
		for what, m in maps:
			assert m[at] == value, (order, by, "map of", what, at, m[at], value)
		if "other" in order:
			for how in ("read", "map"):
				got = int(ask(how, at))
				assert got == value or (got == -1 and os.environ["DIRECT_MMAP"] != "yes"), (order, by, "other", how, got, value)
		checked += 1
	for turn in range(3):
		for what, fd in handles:
			if what != "r":
				value += 1
				os.pwrite(fd, bytes([value]) * 100, 4990)
				check(5000, "write by " + what)
				check(5089, "write by " + what)
		for what, m in maps:
			if what == "rw":
				value += 1
				m[5000:5010] = bytes([value]) * 10
				check(5005, "map of " + what)
	# Shrinking and growing: the bytes behind are zero for all.
	for what, fd in handles:
		if what != "r":
			os.ftruncate(fd, 5000)
			os.ftruncate(fd, SIZE)
			value = 0
			check(5005, "truncate by " + what)
			break
	maps.clear()
	for _, fd in handles:
		os.close(fd)
	if "other" in order:
		ask("close", 0)
print(checked, "checked,", unmapped, "not mapped")
END
echo "$OUT"
umount_ckptfs
