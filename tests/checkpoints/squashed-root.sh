#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Saves on a backing on which root has no rights over others' files (root_squash; here the daemon lacks the capabilities
# for it): files and checkpoints are committed, changed, replaced, removed, pointed to, and recovered after a crash, as
# whoever made them, also where nobody but these may enter, and by a supplementary group.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
needs setpriv
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to have users in"
BACK=$TEST_TMP/back
MNT=$TEST_TMP/mnt
export BACK MNT
chmod 755 "$TEST_TMP"
mkdir -p "$BACK" "$MNT"
chown 1002:1002 "$BACK"
mkdir -m 700 "$BACK/home"
chown 1001:1001 "$BACK/home"
mkdir -m 770 "$BACK/shared"
chown 1002:1234 "$BACK/shared"

squashed() {
	expect_ok setpriv --bounding-set -dac_override,-dac_read_search,-fowner,-chown,-fsetid -- \
		"$CKPTFS" mount -o quiet_s=1,host_cache_size=64M "$BACK" "$MNT"
}

cat >"$TEST_TMP/saves.py" <<'END'
from checkpoints import *
import shutil
mnt, back = (top + "/" + sys.argv[1] for top in (mnt, back))
os.umask(0o077)
one, two, latest = mnt + "/step-1", mnt + "/step-2", mnt + "/latest"

def same(name, content):
	for top in mnt, back:
		assert tree(top + "/" + name) == content, name
		verify(top + "/" + name)

# A file, and another of the same name.
for seed in 1, 2:
	save(mnt + "/x.pt", data(seed, 3 * MB))
	wait_for(mnt + "/x.pt")
	assert read(back + "/x.pt") == data(seed, 3 * MB)
	verify(back + "/x.pt")
	assert os.stat(back + "/x.pt").st_uid == os.getuid()

content = make(one)
same("step-1", content)
assert os.stat(back + "/step-1/.ckptfs-commit.json").st_uid == os.getuid()
save(one + "/late", b"late") # a change
content["late"] = b"late"
wait_for(one)
same("step-1", content)

content = begin(two, seed=2)
save(latest, b"step-2") # waits for it
shutil.rmtree(one) # and this
assert os.path.exists(back + "/step-1") and not os.path.exists(back + "/latest")
end(two, content)
wait_for(two)
same("step-2", content)
wait(lambda: os.path.exists(back + "/latest") and read(back + "/latest") == b"step-2")
wait(lambda: not os.path.exists(back + "/step-1"))
for i in range(2): # the same once more
	content["__%d_0.distcp" % i] = data(3000 + i, 1000)
	save(two + "/__%d_0.distcp" % i, content["__%d_0.distcp" % i])
end(two, content)
wait_for(two)
same("step-2", content)
make(one)
wait(lambda: sorted(os.listdir(back)) == ["latest", "step-1", "step-2", "x.pt"])

# One that ends when whoever wrote it is gone.
begin(mnt + "/step-3")
os.rename(mnt + "/step-3", mnt + "/step-4")
END

cat >"$TEST_TMP/ended.py" <<'END'
from checkpoints import *
name = sys.argv[1] + "/step-4"
wait_for(mnt + "/" + name)
verify(back + "/" + name)
END

# As a daemon that was killed when it had recorded the decision leaves it: step-2 and the pointer to it are staged, step-1
# is to go.
cat >"$TEST_TMP/undo.py" <<'END'
from checkpoints import *
top = back + "/" + sys.argv[1]

def generation(name):
	return json.loads(read(top + "/" + name + "/.ckptfs-commit.json"))["generation"]

new, staged = generation("step-2"), "0123456789abcdef" * 2
os.rename(top + "/step-2", top + "/.ckptfs-" + new)
os.rename(top + "/latest", top + "/.ckptfs-" + staged)
text = json.dumps({
	"decision": "commit", "replaces": None, "unit": sys.argv[1] + "/step-2",
	"pointers": [{"name": "latest", "staged": staged, "was": "nothing"}],
	"removals": [{"name": "step-1", "generation": generation("step-1")}],
}).encode()
save(back + "/.ckptfs/txn/%d/%s.decision" % (os.getuid(), new), b"ckptfs-record %d\n" % len(text) + text, mode=0o600)
END

cat >"$TEST_TMP/redone.py" <<'END'
from checkpoints import *
top = back + "/" + sys.argv[1]
verify(top + "/step-2")
assert read(top + "/latest") == b"step-2"
wait(lambda: sorted(os.listdir(top)) == ["latest", "step-2", "step-4", "x.pt"])
assert not os.listdir(back + "/.ckptfs/txn/%d" % os.getuid())
END

# both PROGRAM: as each of the users.
both() {
	expect_ok as_user 1001 "$PYTHON" "$TEST_TMP/$1.py" home
	expect_ok as_user_groups 1003 1234 "$PYTHON" "$TEST_TMP/$1.py" shared
}

# The system's users, who have no process any more when what they saved is recovered; for this test alone.
cp /etc/passwd /etc/group "$TEST_TMP"
echo 'member:x:1003:1003::/:/bin/false' >>"$TEST_TMP/passwd"
echo 'project:x:1234:member' >>"$TEST_TMP/group"
for file in passwd group; do
	mount --bind "$TEST_TMP/$file" "/etc/$file" || skip "cannot mount at /etc/$file"
done

squashed
both saves
both ended
daemon=$(daemon_pid)
kill -KILL "$daemon"
wait_until 10 test ! -e "/proc/$daemon"
umount -l "$MNT"
both undo
squashed
both redone
umount_ckptfs
