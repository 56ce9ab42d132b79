#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A rule of the config file may say that files of other names are checkpoints by themselves.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
echo '{"rules": [{"name": "arrays", "kind": "file", "match": ["?*.npz"], "temp": ["?*.npz.part"], "done": [["all_closed"]]}]}' \
	>"$TEST_TMP/config.json"
mount_ckptfs -o "config=$TEST_TMP/config.json"
program <<'END2'
from presets import *

writer = Rank(session=True)
writer.file("x.npz", 30000, 1)
published()
verify(back + "/x.npz")
writer.create("x.npz")
writer.write("x.npz", 30000, 2)
assert read(back + "/x.npz") == data(1, 30000)
writer.kill()
wait(failures)
assert read(back + "/x.npz") == read(mnt + "/x.npz") == data(1, 30000)

writer = Rank(session=True)
writer.file("x.npz.part", 30000, 3)
writer.rename("x.npz.part", "x.npz")
published()
verify(back + "/x.npz")
assert read(back + "/x.npz") == data(3, 30000)
assert json.loads(ckptfs("why", "--json", mnt + "/x.npz")[1])["kind"] == "unit"
writer.exit()
END2
umount_ckptfs
