#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A user's quota on the backing holds through a mount of root's: write and create say EDQUOT, as they do there.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv setquota tune2fs
loop_fs ext4 64 "$TEST_TMP/disk"
expect_ok umount "$TEST_TMP/disk"
expect_ok tune2fs -O quota "$LOOP_DEV"
mount -o usrquota "$LOOP_DEV" "$TEST_TMP/disk" || skip "this kernel has no quotas for ext4"
mount_ckptfs "$TEST_TMP/disk"
status_is "s['features']['act_as_caller'] == 'yes'" || skip "the daemon cannot act as its callers here"
run setquota -u 1001 0 4096 0 20 "$BACK"
[ "$RC" = 0 ] || skip "setquota: $OUT"
mkdir -m 777 "$BACK/plain" "$BACK/mounted"
cat >"$TEST_TMP/use.py" <<'END'
import errno, os, sys
out = []
block = b"q" * 65536
for direct in (0, os.O_RDWR):
	fd = os.open("data", os.O_CREAT | (direct or os.O_WRONLY), 0o644)
	total = 0
	try:
		while total < 64 << 20:
			total += os.write(fd, block)
	except OSError as e:
		out.append((errno.errorcode[e.errno], 3 << 20 < total <= 4 << 20))
	os.close(fd)
	os.unlink("data")
made = 0
try:
	while made < 100:
		os.close(os.open("f%d" % made, os.O_CREAT | os.O_WRONLY))
		made += 1
except OSError as e:
	out.append(errno.errorcode[e.errno])
for i in range(made):
	os.unlink("f%d" % i)
print(out, 10 <= made <= 20)
END
for dir in "$BACK/plain" "$MNT/mounted"; do
	cd "$dir" || die "no $dir"
	expect_ok as_user 1001 "$PYTHON" "$TEST_TMP/use.py"
	assert_eq "$OUT" "[('EDQUOT', True), ('EDQUOT', True), 'EDQUOT'] True" "$dir"
done
cd /
assert_contains "$(failures_of "[x['errno'] for x in f]")" EDQUOT
umount_ckptfs
