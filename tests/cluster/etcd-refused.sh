#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A coord that is none, or an etcd that cannot be used: the mount is refused, and why is said.

. "${SRC:?}/tests/cli/verbs.sh"
. "$SRC/tests/cluster/etcd.bash"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"

# refused_with TEXT COORD
refused_with() {
	refused 1 "$1" -o "coord=$2" "$BACK" "$MNT"
	expect_fail "$CKPTFS" fsck -o "coord=$2" "$BACK"
	assert_contains "$OUT" "$1"
}

refused_with "option coord=other is not valid: there is no such way" other
refused_with "a URL begins with http:// or https://" etcd:
refused_with "a URL begins with http:// or https://" etcd:127.0.0.1:2379
refused_with "belong into a file" etcd:http://me:secret@127.0.0.1
[[ $OUT != *secret* ]] || die "the password is repeated: $OUT"
refused_with "$TEST_TMP/none.json, which option coord names, cannot be used: No such file" "etcd:$TEST_TMP/none.json"
echo '{"endpoint": []}' >"$TEST_TMP/etcd.json"
refused_with "has the unknown key 'endpoint'; did you mean 'endpoints'?" "etcd:$TEST_TMP/etcd.json"
[ ! -e "$BACK/.ckptfs" ] || die "the backing was touched"
port=$(python3 "$SRC/tests/cluster/etcd.py" ports 1)
expect_ok "$CKPTFS" init "$BACK"
refused_with "etcd at http://127.0.0.1:$port: Connection refused" "etcd:http://127.0.0.1:$port"
[ ! -e "$BACK/.ckptfs/coord.json" ] || die "coord.json was written"
run "$CKPTFS" fsck -o cord=dir "$BACK"
assert_eq "$RC" 2 "exit status of fsck with an option that is none"
assert_contains "$OUT" "did you mean 'coord'?"
