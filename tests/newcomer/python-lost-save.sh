#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save that fails after it has returned, because the backing is full, is told by its own name, once: by the next barrier,
# by ckptfs.wait of it, or at the end of the program by the log.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_root
needs_fuse
export PYTHONPATH=$PYTHONPATH:$SRC/tests/newcomer
mkdir back
mount -t tmpfs -o size=24m none back || skip "cannot mount a tmpfs"
mount_ckptfs
cat >save.py <<'END'
from told import *
import json, subprocess, time
mnt, back = os.environ["MNT"], os.environ["BACK"]
session = ckptfs.Session(mnt)

def save(name, mebibytes):
	"""Lazily: only the flush finds out that there is no room."""
	with ckptfs.open(mnt + "/" + name) as file:
		session.write(file, {"w": bytearray(mebibytes << 20)})

def failed(name):
	"""Waits until the daemon knows."""
	while True:
		status = json.loads(subprocess.run([os.environ["CKPTFS"], "why", "--json", mnt + "/" + name], stdout=subprocess.PIPE, check=False).stdout)
		if status.get("state") == "failed":
			return
		time.sleep(0.05)

save("s0.pt", 16)
ckptfs.wait(mnt + "/s0.pt")
save("s1.pt", 16)
failed("s1.pt")
END
program <<'END'
from save import *
text = told_soon(errno.ENOSPC, ckptfs.barrier)
assert text.startswith(mnt + "/s1.pt: ") and "No space left on device" in text, text
ckptfs.barrier() # told once
save("s2.pt", 1)
ckptfs.wait(mnt + "/s2.pt")
# By wait of that one; the others are not held up by it.
save("s3.pt", 16)
failed("s3.pt")
ckptfs.wait(mnt + "/s2.pt")
assert "s3.pt" in told(errno.ENOSPC, ckptfs.wait, mnt + "/s3.pt")
assert not said, said # it is hidden, but nothing that is still to come
ckptfs.barrier()
# A name that is saved anew is not what failed.
save("s4.pt", 16)
failed("s4.pt")
os.unlink(mnt + "/s2.pt")
save("s4.pt", 1)
ckptfs.wait(mnt + "/s4.pt")
ckptfs.barrier()
# What was removed on purpose is no loss.
save("s5.pt", 1)
os.unlink(mnt + "/s5.pt")
ckptfs.barrier()
END
rm "$MNT"/s*
# Nobody asks.
program <<'END'
import sys
sys.stderr = open("err", "w")
from save import *
logging.getLogger("ckptfs").handlers.clear()
END
assert_contains "$(cat err)" "$MNT/s1.pt: 's1.pt' could not be written to the backing: No space left on device"
rm "$MNT"/s*
# A save that was committed while its session was open is not lost, though another program removed it and the mount was made anew.
program <<'END'
from save import *
from ckptfs import fates
told_soon(errno.ENOSPC, ckptfs.barrier)
fates._ending.set() # no thread asks
save("s6.pt", 1)
fates.watch(mnt + "/s6.pt")
while json.loads(subprocess.run([os.environ["CKPTFS"], "why", "--json", mnt + "/s6.pt"], stdout=subprocess.PIPE).stdout)["state"] != "committed":
	time.sleep(0.01)
session.close()
subprocess.run([os.environ["CKPTFS"], "umount", mnt], check=True)
os.unlink(back + "/s6.pt")
os.mkdir("other")
subprocess.run(["mount", "-t", "tmpfs", "none", "other"], check=True) # takes the device number of the mount
subprocess.run([os.environ["CKPTFS"], "mount", "-o", "host_cache_size=64M", back, mnt], check=True)
fates.look()
fates.raise_first()
END
umount_ckptfs
