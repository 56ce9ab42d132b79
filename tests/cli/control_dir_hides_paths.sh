#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# failures.json and status tell a user the own failures in full, of others' only that they were; root sees all.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_fuse 1001
mkdir "$TEST_TMP/back"
expect_ok mount -t tmpfs -o size=256k,mode=1777 tmpfs "$TEST_TMP/back"
mount_ckptfs
for uid in 1001 1002; do
	mkdir -m 700 "$MNT/of$uid"
	chown "$uid" "$MNT/of$uid"
	as_user "$uid" dd if=/dev/zero of="$MNT/of$uid/secret" bs=64k count=64 2>/dev/null && die "no ENOSPC for $uid"
	as_user "$uid" truncate -s 0 "$MNT/of$uid/secret"
done

# seen UID [EXPRESSION]: the paths that UID sees in failures.json.
seen() {
	value 'sorted({(f["uid"], f["path"]) for f in x}, key=str)' "$(as_user "$1" cat "$MNT/.ckptfs/failures.json")"
}

assert_eq "$(seen 0)" "[(1001, 'of1001/secret'), (1002, 'of1002/secret')]"
assert_eq "$(seen 1001)" "[(1001, 'of1001/secret'), (1002, None)]"
assert_eq "$(seen 1003)" "[(1001, None), (1002, None)]"
text=$(as_user 1001 cat "$MNT/.ckptfs/failures.json")
[[ $text != *of1002* ]] || die "another user's path in $text"
assert_eq "$(value '{f["errno"] for f in x}' "$text")" "{'ENOSPC'}"
assert_contains "$(value '[f["message"] for f in x if f["message"]][0]' "$text")" \
	"of 'of1001/secret' failed on the backing: No space left on device"
expect_ok as_user 1001 "$CKPTFS" status "$MNT"
assert_contains "$OUT" "of1001/secret"
assert_contains "$OUT" "(another user's)"
[[ $OUT != *of1002* ]] || die "another user's path in $OUT"
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "of1002/secret"
umount_ckptfs
