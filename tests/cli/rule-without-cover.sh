#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount says of a rule of the config file that a rank which dies before the end is seen fails every checkpoint of it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
cat >"$TEST_TMP/config.json" <<'END2'
{"rules": [
	{"name": "bare", "match": ["bare-*"], "done": [[{"close": "index.json"}], ["all_closed", "quiet"]]},
	{"name": "tracked", "match": ["run-*"], "done": [[{"close": "../TRACKER"}, "after_all"]]},
	{"name": "ranks", "match": ["save-*"], "done": [[{"every_rank": "rank-{rank}.bin"}]]},
	{"name": "one-file", "kind": "file", "match": ["*.bin"], "done": [["all_closed"]]}
]}
END2
mkdir "$TEST_TMP/back" "$TEST_TMP/mnt"
expect_ok "$CKPTFS" mount -o "config=$TEST_TMP/config.json,host_cache_size=64M" "$TEST_TMP/back" "$TEST_TMP/mnt"
assert_contains "$OUT" "the config file: rule 'bare' says of no end that it comes after all ranks are done (after_all)"
assert_contains "$OUT" "a rank that dies before the end is seen fails the checkpoint, even if that rank had finished its part"
assert_eq "$(grep -c 'says of no end' <<<"$OUT")" 1 "notices"
expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"

expect_ok "$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/back" "$TEST_TMP/mnt"
assert_eq "$OUT" "" "what a mount with the built-in rules says"
expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"
