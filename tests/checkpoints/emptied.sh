#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A person removes all files of a committed checkpoint, but not its directory: that is an ordinary one after some silence,
# and no checkpoint any more.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

def person(script, unit):
	subprocess.run(["setsid", "-w", "sh", "-c", script, "-", unit], check=True)

def make_with_sub(unit):
	begin(unit)
	os.mkdir(unit + "/sub")
	save(unit + "/sub/file", b"x")
	end(unit)
	wait_for(unit)
	return tree(unit)

def becomes(name, content):
	"""Ordinary, with that."""
	unit = mnt + "/" + name
	def is_done():
		try:
			now, committed = tree(back + "/" + name), os.path.exists(back + "/" + name + "/.ckptfs-commit.json")
		except FileNotFoundError: # it was replaced while it was looked at
			return False
		return now == content and not committed
	assert tree(unit) == content, tree(unit)
	wait(is_done)
	# Whatever the kernel was asked while it was replaced.
	wait(lambda: not any(r["path"] == name for r in status()["removals"] + status()["pending"]))
	assert tree(unit) == content, tree(unit)
	assert not os.path.exists(unit + "/.ckptfs-commit.json")
	wait(lambda: not any(u["path"].endswith(name) for u in json.loads(ckptfs("ls", "--all", "--json", mnt)[1])["units"]))

for script, left in ('rm "$1"/.metadata "$1"/*.distcp && rm -r "$1"/sub', {}), ('find "$1" -type f -delete', {"sub": None}):
	unit = mnt + "/step-1"
	make_with_sub(unit)
	os.chmod(unit, 0o751)
	person(script, unit)
	assert tree(unit) == left
	becomes("step-1", left)
	assert os.stat(unit).st_mode & 0o777 == 0o751
	person('rm -r "$1"', unit)
	assert not os.path.exists(back + "/step-1")

# Just after it was changed; and who is in it goes on there.
unit = mnt + "/step-2"
make(unit)
os.chdir(unit)
person('echo x >"$1"/notes && rm "$1"/.metadata "$1"/*', unit)
becomes("step-2", {})
save("file", b"y")
assert tree(unit) == tree(back + "/step-2") == {"file": b"y"}
os.chdir("/")
person('rm -r "$1"', unit)

# At once afterwards: it goes, it is an ordinary one, or another checkpoint.
make(unit)
person('rm "$1"/.metadata "$1"/* && rmdir "$1"', unit)
assert not os.path.exists(back + "/step-2")
make(unit)
person('rm "$1"/.metadata "$1"/* && echo x >"$1"/notes', unit)
becomes("step-2", {"notes": b"x\n"})
content = make(mnt + "/step-3")
person('rm "$1"/.metadata "$1"/*', mnt + "/step-3")
for name in content:
	content[name] = data(5, 500)
	save(mnt + "/step-3/" + (".metadata.tmp" if name == ".metadata" else name), content[name])
os.rename(mnt + "/step-3/.metadata.tmp", mnt + "/step-3/.metadata")
wait_for(mnt + "/step-3")
is_whole("step-3", content)
assert not failures(), failures()
END
umount_ckptfs
assert_eq "$(find "$BACK" -name '.ckptfs-*' ! -name .ckptfs-commit.json ! -name .ckptfs-index.json)" "" "what is left"
