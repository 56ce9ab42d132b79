#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The ways in which programs put a file in the place of another: Python's, and those of cp, mv, dd, tar, install, rsync
# and the shell. After `ckptfs wait` the backing has what a plain directory has after the same.
#
# needs: root
# long: 60
# cpu: 15

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs tar dd install
loop_fs ext4 300 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
PLAIN=$TEST_TMP/plain
export PLAIN
mkdir "$PLAIN" "$TEST_TMP/source"

# await NAME: published. What was changed in place has no digest, and wait fails for that.
await() {
	run "$CKPTFS" wait --timeout 30 "$MNT/$1"
	[ "$RC" = 0 ] || assert_contains "$OUT" "has no digest"
}

# there NAME: published, and the same as in the plain directory.
there() {
	await "$1"
	expect_ok cmp "$BACK/$1" "$PLAIN/$1"
	expect_ok cmp "$MNT/$1" "$PLAIN/$1"
	run "$CKPTFS" verify "$BACK/$1"
	[ "$RC" = 0 ] || assert_contains "$OUT" "no record" # the same
	assert_eq "$(stat -c '%a %s %h' "$MNT/$1")" "$(stat -c '%a %s %h' "$PLAIN/$1")" "mode, size and links of $1"
	assert_eq "$(ls -A -I lost+found "$MNT")" "$(ls -A "$PLAIN")" "names after $1"
}

# both FUNCTION: in a plain directory and in the mount, with the file m.safetensors and x.pt missing, there, and there
# again; at once, or after they have been published.
both() {
	local round
	for round in $(amount "new over" "new over over-published over"); do
		[ "$round" != over-published ] || await x.pt
		for TOP in "$PLAIN" "$MNT"; do
			(cd "$TOP" && "$1") || die "$1 in $TOP"
		done
		there x.pt
	done
	rm "$PLAIN/x.pt" "$MNT/x.pt"
}

head -c 3000001 /dev/urandom >"$TEST_TMP/source/x.pt"
head -c 1500000 /dev/urandom >"$TEST_TMP/source/second"
chmod 640 "$TEST_TMP/source/x.pt"
touch -d '2020-01-01 12:00:00.123456789' "$TEST_TMP/source/x.pt"
tar -C "$TEST_TMP/source" -cf "$TEST_TMP/x.tar" x.pt || die "tar"
SOURCE=$TEST_TMP/source/x.pt SECOND=$TEST_TMP/source/second

by_cp() { cp "$SOURCE" x.pt; }
by_cp_kept() { cp -p --reflink=auto "$SOURCE" x.pt && [ x.pt -ot "$SECOND" ]; }
by_cp_anew() { cp --remove-destination "$SECOND" x.pt; }
by_cp_inside() { cp "$SOURCE" other.pt && cp --reflink=auto other.pt x.pt && rm other.pt; }
by_mv_into() { cp -p "$SOURCE" "$TEST_TMP/moved.pt" && mv "$TEST_TMP/moved.pt" x.pt; }
by_mv_inside() { cp "$SOURCE" new.pt && mv new.pt x.pt; }
by_mv_from_plain() { cp "$SOURCE" something && mv something x.pt; }
by_dd() { dd if="$SOURCE" of=x.pt bs=100k conv=fsync status=none; }
by_dd_in_place() { cp "$SOURCE" x.pt && dd if="$SECOND" of=x.pt bs=64k seek=3 conv=notrunc,fsync status=none; }
by_dd_direct() { dd if="$SOURCE" of=x.pt bs=1M oflag=direct status=none && truncate -s 3000001 x.pt; }
by_tar() { tar -xf "$TEST_TMP/x.tar"; }
by_tar_over() { tar --overwrite -xf "$TEST_TMP/x.tar"; }
by_tar_unlink() { tar --unlink-first -xf "$TEST_TMP/x.tar"; }
by_install() { install -m 600 "$SECOND" x.pt; }
by_shell() { cat "$SOURCE" >x.pt && cat "$SECOND" >>x.pt; }
by_shell_group() { { cat "$SOURCE" && cat "$SECOND"; } >x.pt; }
by_pipe() { tar -C "$TEST_TMP/source" -cf - second | dd of=x.pt bs=10k status=none; }
by_tee() { tee x.pt <"$SOURCE" >/dev/null; }
by_truncate() { cp "$SOURCE" x.pt && truncate -s 100k x.pt && truncate -s 300k x.pt; }
by_link() { cp "$SOURCE" new.pt && "$CKPTFS" wait "$TOP/new.pt" 2>/dev/null; ln -f new.pt x.pt && rm new.pt; }
by_split() { split -b 1M --filter='cat >>x.pt' "$SOURCE"; }
by_rsync() { rsync -t "$SOURCE" x.pt; }
by_rsync_in_place() { rsync -a --inplace --no-whole-file "$SOURCE" x.pt; }

WAYS=(cp cp_kept cp_anew cp_inside mv_into mv_inside mv_from_plain dd dd_in_place dd_direct tar tar_over tar_unlink install
	shell shell_group pipe tee truncate link split)
if command -v rsync >/dev/null; then
	WAYS+=(rsync rsync_in_place)
fi
for way in "${WAYS[@]}"; do
	both "by_$way"
done

program <<'END'
from units import *

plain = os.environ["PLAIN"]

def direct(top, name, content):
	with open(top + "/" + name, "wb") as f:
		f.write(content)

def temp_and_replace(top, name, content):
	with open(top + "/" + name + ".tmp", "wb") as f:
		f.write(content)
		f.flush()
		os.fsync(f.fileno())
	os.replace(top + "/" + name + ".tmp", top + "/" + name)

def named_temporary(top, name, content):
	with tempfile.NamedTemporaryFile(dir=top, delete=False) as f:
		f.write(content)
	os.chmod(f.name, 0o644)
	os.replace(f.name, top + "/" + name)

def named_temporary_open(top, name, content):
	with tempfile.NamedTemporaryFile(dir=top, suffix=".pt", delete=False) as f:
		f.write(content)
		f.flush()
		os.fchmod(f.fileno(), 0o640)
		os.replace(f.name, top + "/" + name)

def safetensors_like(top, name, content):
	path = top + "/.tmp%06d" % (hash(content) % 1000000)
	fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
	os.write(fd, content)
	os.fsync(fd)
	os.close(fd)
	os.rename(path, top + "/" + name)
	dir_fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
	os.fsync(dir_fd)
	os.close(dir_fd)

def linked(suffix):
	def by_link(top, name, content):
		fd, path = tempfile.mkstemp(dir=top, suffix=suffix)
		os.write(fd, content)
		os.close(fd)
		if os.path.exists(top + "/" + name):
			os.unlink(top + "/" + name)
		os.link(path, top + "/" + name)
		os.unlink(path)
	return by_link

def kept_as_backup(top, name, content):
	"""As editors do, and many trainers: the old one under another name, for as long as it takes."""
	if os.path.exists(top + "/" + name):
		os.rename(top + "/" + name, top + "/backup.pt")
	direct(top, name, content)
	if os.path.exists(top + "/backup.pt"):
		os.unlink(top + "/backup.pt")

def preallocated(top, name, content):
	with open(top + "/" + name, "wb") as f:
		os.posix_fallocate(f.fileno(), 0, len(content) + 100000)
		f.write(content)
		f.truncate()

def headers_last(top, name, content):
	with open(top + "/" + name, "wb") as f:
		f.seek(4096)
		f.write(content[4096:])
		f.seek(0)
		f.write(content[:4096])

for way in (direct, temp_and_replace, named_temporary, named_temporary_open, safetensors_like, linked(""), linked(".pt"),
		kept_as_backup, preallocated, headers_last):
	for nr in range(4):
		content = safetensors(nr, MB + nr * 100000)
		for top in plain, mnt:
			way(top, "m.safetensors", content)
		path = mnt + "/m.safetensors"
		assert read(path) == content and names() == sorted(os.listdir(plain)), (way, nr, names())
		a, b = os.stat(path), os.stat(plain + "/m.safetensors")
		assert (a.st_mode, a.st_size, a.st_nlink) == (b.st_mode, b.st_size, b.st_nlink), (way, nr, a, b)
		if nr % 2:
			continue # the next one comes at once
		wait_for(path)
		assert read(back + "/m.safetensors") == content, (way, nr)
		assert "user.ckptfs.xxh3" not in os.listxattr(back + "/m.safetensors") or not verify(path), (way, nr)
	published()
	assert not staging()
assert failures() == [], failures()
END
umount_ckptfs
