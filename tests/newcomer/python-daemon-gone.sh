#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The daemon of a mount is killed: every call of the Python package names the mount, says what is safe and what to do; after
# the next mount the same process saves again.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
export PYTHONPATH=$PYTHONPATH:$SRC/tests/newcomer
mount_ckptfs -o capture_bw=1M
# fd 8: what the program asks for; fd 9: that it was done.
mkfifo ask answer
exec 8<>ask 9<>answer
cat >program.py <<'END'
from told import *
mnt, back = os.environ["MNT"], os.environ["BACK"]

def shell(what):
	with open("ask", "w") as file:
		file.write(what + "\n")
	with open("answer") as file:
		assert file.readline() == what + "\n"

def explained(call, *args):
	text = told((errno.ENOTCONN, errno.ECONNABORTED), call, *args)
	assert "the daemon of %s is not running. Earlier checkpoints are safe, and training may go on" % mnt in text, text
	assert "Clear the mount with `ckptfs umount %s`, then mount again" % mnt in text, text
	return text

session = ckptfs.Session(mnt)
def save(name, size):
	with open(mnt + "/" + name, "wb", 0) as file:
		ckptfs.session_of(mnt).write(file, {"w": bytearray(size)})

save("a.pt", 1000)
ckptfs.wait(mnt + "/a.pt")
lost = ckptfs.open(mnt + "/lost.pt")
lost.write(b"x")
fd = os.open(mnt + "/b.pt", os.O_WRONLY | os.O_CREAT)
session.write(fd, {"layer.weight": bytearray(8 << 20)})
shell("kill")
text = explained(session.barrier)
assert text.startswith(mnt + "/b.pt failed: the daemon is gone, and with it what was not captured"), text
try:
	os.close(fd)
except OSError:
	pass
assert not session.alive
explained(ckptfs.Session, mnt)
explained(ckptfs.session_of, mnt + "/c.pt")
explained(ckptfs.wait, mnt + "/a.pt")
explained(ckptfs.commit, mnt + "/a.pt")
explained(ckptfs.latest, mnt)
explained(ckptfs.require, mnt)
explained(ckptfs.open, mnt + "/c.pt")
explained(ckptfs.open, mnt + "/a.pt", "rb")
explained(lost.close)
shell("mount")
ckptfs.require(mnt)
assert ckptfs.latest(mnt) == mnt + "/a.pt"
save("c.pt", 1000)
ckptfs.barrier()
ckptfs.wait(mnt + "/c.pt")
assert os.path.getsize(back + "/c.pt") == 1000 and not os.path.exists(back + "/lost.pt")
assert not said, said

# Watched saves: one that was committed is no loss, one that was not is told by the first call after the next mount.
with ckptfs.open(mnt + "/kept.pt") as file:
	file.write(b"x")
ckptfs.wait(mnt + "/kept.pt", "durable")
while not os.path.exists(back + "/kept.pt"):
	pass
from ckptfs import fates
fates.watch(mnt + "/kept.pt")
fd = os.open(mnt + "/never.pt", os.O_WRONLY | os.O_CREAT)
os.write(fd, b"x")
fates.watch(mnt + "/never.pt")
shell("kill")
while fates._saves[mnt + "/never.pt"].device != -1:
	pass # the next mount gets the same number, perhaps
shell("mount")
text = told_soon(errno.ENOTCONN, ckptfs.barrier)
assert text.startswith(mnt + "/never.pt failed: the daemon of its mount ended before it was committed"), text
ckptfs.barrier()
END
MNT=$MNT BACK=$BACK timeout 100 python3 program.py &
program=$!
while kill -0 "$program" 2>/dev/null; do
	read -r -t 1 word <&8 || continue
	case $word in
	kill) kill9_and_reaped "$(daemon_pid)" 20 ;;
	mount)
		umount_ckptfs
		mount_ckptfs
		;;
	esac
	echo "$word" >&9
done
wait "$program" || die "the program failed"
umount_ckptfs
