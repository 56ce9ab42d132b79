#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A capture that is said to fail while its pieces are taken in: who reads the file gets what was captured or an error,
# never what was there before.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

s = Session(arena=4 * MB)
tensor = b"t" * (2 * MB)
s.register({1: 2 * MB})
wrong = []

def reader(name, opened):
	with open(name, "rb", 0) as f:
		opened.set()
		try:
			if os.pread(f.fileno(), 2 * MB, 0) != tensor:
				wrong.append(name)
		except OSError:
			pass

for i in range(200):
	name = mnt + "/%d.pt" % i
	f = open(name, "wb", 0)
	s.write(f, (1, 0, 0, 2 * MB, tensor))
	opened = threading.Event()
	threads = [threading.Thread(target=reader, args=(name, opened))]
	threads[0].start()
	opened.wait()
	done = s.copy(s.next())
	threads += [threading.Thread(target=s.next, args=(done,)), threading.Thread(target=s.fail, args=(s.seq, errno.ENODEV, "no"))]
	for thread in threads[1:]:
		thread.start()
	for thread in threads:
		thread.join()
	try:
		f.close() # it may have landed before
	except OSError as e:
		assert e.errno == errno.ENODEV
assert not wrong, wrong
wait(lambda: s.stats()["pending"] == 0 and s.stats()["free"] == 4 * MB)
assert s.stats()["failed"] > 0

# One that fails on both sides at once: what shares its memory, and was reported, is over all the same.
s.register({2: MB + MB // 2, 3: MB // 4, 4: 4096})
f = open(mnt + "/both-sides.pt", "wb", 0)
first = s.seq + 1
s.write(f, (2, 0, 0, MB + MB // 2, data(2, MB + MB // 2)), (3, MB + MB // 2, 0, MB // 4, data(3, MB // 4)),
	(4, 5 * MB, 0, 4096, data(4, 4096)))
grants = s.next()
assert [seq for _, seq, *_ in grants] == [first, first, first + 1, first + 2], grants
s.copy(grants)
failed = s.stats()["failed"]
s.fail(first + 2, errno.ENOSPC, "no")
s.next((grants[0][0],)) # it lands in a file that has failed
wait(lambda: s.stats()["failed"] == failed + 2)
s.fail(first, errno.EIO, "gone") # and reports nothing more of it
s.next((grants[2][0],))
wait(lambda: s.stats()["pending"] == 0 and s.stats()["free"] == 4 * MB)
fails(errno.ENOSPC, f.close)
s.bye()
END
umount_ckptfs
