#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# While one process replaces `latest` again and again (write, rename), others that open, stat and read it always
# find a whole one: no error, nothing mixed. On one mount, and with the readers on a second one of the same backing.
#
# timeout: 90
# long: 90
# cpu: 15

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
A=$MNT
mount_ckptfs "$BACK" "$TEST_TMP/second"
cat >"$TEST_TMP/race.py" <<'END'
import mmap, os, sys
writer, reader, rounds, replaced = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
def body(n):
	return b"%08d" % n * (1000 + n % 5 * 700)
def publish(n):
	tmp = "%s/tmp.%d" % (writer, n % 3)
	fd = os.open(tmp, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
	os.write(fd, body(n))
	os.close(fd)
	os.rename(tmp, writer + "/" + replaced)
def read_loop(how):
	name, last, seen = reader + "/" + replaced, 0, 0
	while not os.path.exists(reader + "/stop." + replaced):
		if how == "mmap":
			with open(name, "rb") as f:
				data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:]
		else:
			fd = os.open(name, os.O_RDONLY)
			data = os.read(fd, 1 << 20)
			size = os.fstat(fd).st_size
			assert size == len(data), ("size", size, len(data))
			os.close(fd)
			assert os.stat(name).st_size in {len(body(i)) for i in range(5)}
		n = int(data[:8])
		assert data == body(n), ("mixed", how, n, len(data))
		assert n >= last, ("went back", last, n)
		last, seen = n, seen + 1
	os._exit(0 if seen > 10 else 3)
publish(1)
children = []
for how in ("read", "mmap", "read"):
	pid = os.fork()
	if not pid:
		try:
			read_loop(how)
		except BaseException as e:
			print(how, repr(e), flush=True)
			os._exit(1)
	children.append(pid)
for n in range(2, rounds):
	publish(n)
open(writer + "/stop." + replaced, "w").close()
for pid in children:
	assert os.waitpid(pid, 0)[1] == 0, "a reader failed"
END
ROUNDS=$(amount 600 3000)
expect_ok "$PYTHON" "$TEST_TMP/race.py" "$A" "$A" "$ROUNDS" latest
expect_ok "$PYTHON" "$TEST_TMP/race.py" "$A" "$MNT" "$ROUNDS" other
umount_ckptfs
umount_ckptfs "$A"
