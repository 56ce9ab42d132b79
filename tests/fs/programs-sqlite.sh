#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sqlite with a rollback journal and with a write-ahead log (shared memory), several processes at once.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok timeout 50 "$PYTHON" - "$MNT" <<'END'
import os, sys
try:
	import sqlite3
except ImportError:
	sys.exit(0)
for mode in ("delete", "truncate", "wal"):
	name = "%s/%s.db" % (sys.argv[1], mode)
	db = sqlite3.connect(name, timeout=40)
	assert db.execute("pragma journal_mode=" + mode).fetchone()[0] == mode
	db.execute("create table t (who int, n int, data blob)")
	db.commit()
	db.close()
	children = []
	for who in range(3):
		pid = os.fork()
		if not pid:
			db = sqlite3.connect(name, timeout=40)
			for n in range(30):
				with db:
					db.execute("insert into t values (?, ?, ?)", (who, n, os.urandom(3000)))
			db.close()
			os._exit(0)
		children.append(pid)
	assert all(os.waitpid(pid, 0)[1] == 0 for pid in children), mode
	db = sqlite3.connect(name)
	assert db.execute("select count(*), sum(n) from t").fetchone() == (90, 3 * 435), mode
	assert db.execute("pragma integrity_check").fetchone() == ("ok",), mode
	db.close()
END
umount_ckptfs
