#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save is told as durable only once its sync has returned: by its attribute, `why` and `wait --state durable`. A file
# that a program still has open is not durable while it is being renamed.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs fsfreeze
gated_fs 128 "$TEST_TMP/disk"
CKPTFS_FEATURES_OFF=odirect mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

PUBLISHING = "on the backing; being synced and given its name"

def told(path):
	code, text = ckptfs("why", "--json", path)
	assert code == 0, text
	return json.loads(text)

def waiter(path):
	return subprocess.Popen([os.environ["CKPTFS"], "wait", "--state", "durable", path])

one = mnt + "/one.pt"
save(mnt + "/warm.pt", data(1, 1000))
wait_for(mnt + "/warm.pt")
with gate_closed():
	save(one, data(2, 100000))
	wait(lambda: told(one).get("waits_for") == PUBLISHING)
	asked = waiter(one)
	for n in range(3): # that of the waiter's first look is over
		assert told(one)["state"] == "sealed", told(one)
		assert os.getxattr(one, "user.ckptfs.state") == b"sealed"
		assert ckptfs("wait", "--state", "durable", "--timeout", "0.3", one)[0] == 1
	assert ckptfs("wait", "--state", "captured", one)[0] == 0
	assert asked.poll() is None
assert asked.wait() == 0
wait_for(one)
assert told(one)["state"] == "committed"
END

program "$TEST_TMP/disk" <<'END'
from units import *

os.mkdir(mnt + "/d")
x, y = mnt + "/x.pt", mnt + "/d/y.pt"
fd = os.open(x, os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, data(1, 100000))
subprocess.run(["fsfreeze", "-f", sys.argv[1]], check=True)
try:
	renamer = subprocess.Popen(["mv", x, y])
	wait(lambda: any(w["op"].startswith("RENAME") for w in status()["requests"]["waiting"]))
	assert pending() == {"x.pt": "open"}, pending()
	code, text = ckptfs("why", "--json", x)
	assert code == 0 and json.loads(text)["state"] == "open", text
	for state in "captured", "durable":
		assert ckptfs("wait", "--state", state, "--timeout", "0.1", x)[0] == 1, state
finally:
	subprocess.run(["fsfreeze", "-u", sys.argv[1]], check=True)
assert renamer.wait() == 0
os.close(fd)
wait_for(y)
END
umount_ckptfs
