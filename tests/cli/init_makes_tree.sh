#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# init makes .ckptfs with its modes whatever the umask is, touches nothing else, and changes nothing the second time.

. "${SRC:?}/tests/cli/verbs.sh"

mkdir -p "$TEST_TMP/back/dir"
echo data >"$TEST_TMP/back/dir/file"
cd "$TEST_TMP" || die "cannot enter"
(umask 077 && "$CKPTFS" init back) >"$TEST_TMP/said" || die "init failed"
uuid=$(value 'x["uuid"]' "$(cat back/.ckptfs/version.json)")
assert_eq "$(cat "$TEST_TMP/said")" "$TEST_TMP/back is ready, uuid $uuid"
[[ $uuid =~ ^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$ ]] || die "no uuid: $uuid"
assert_eq "$(value 'x["ckptfs"]' "$(cat back/.ckptfs/version.json)")" 1 "format"
assert_eq "$(cd back && find . -mindepth 1 -printf '%P %y %m\n' | sort)" ".ckptfs d 755
.ckptfs/digests d 1777
.ckptfs/nodes d 1777
.ckptfs/txn d 1777
.ckptfs/version.json f 644
dir d 755
dir/file f 644"
before=$(listing back)
expect_ok "$CKPTFS" init back/dir/..
assert_contains "$OUT" "uuid $uuid"
assert_eq "$(listing back)" "$before" "the second time"

# What is missing of it is made again; the uuid stays.
rmdir back/.ckptfs/txn
expect_ok "$CKPTFS" init back
assert_eq "$(listing back)" "$before" "made whole"

# A mount makes the same tree.
needs_fuse
mkdir new mnt
expect_ok "$CKPTFS" mount -o host_cache_size=64M new mnt
assert_eq "$(cd new/.ckptfs && find . -mindepth 1 -printf '%P %y %m\n' | sort | sed -E 's,/[0-9a-f]{32} ,/ID ,')" "digests d 1777
nodes d 1777
nodes/ID f 644
txn d 1777
version.json f 644"
expect_ok "$CKPTFS" umount mnt
