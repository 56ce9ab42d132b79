#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Mounts of one new backing that start at the same time all succeed, with labels and a uuid that fit together.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/back"
pids=()
for i in {1..8}; do
	mkdir "$TEST_TMP/mnt$i"
	"$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/back" "$TEST_TMP/mnt$i" >"$TEST_TMP/said$i" 2>&1 &
	pids+=($!)
done
for i in {1..8}; do
	wait "${pids[i - 1]}" || die "mount $i: $(cat "$TEST_TMP/said$i")"
done
for i in {1..8}; do
	status_of 'x["node"]' "$TEST_TMP/mnt$i"
done | sort -u >"$TEST_TMP/labels"
assert_eq "$(wc -l <"$TEST_TMP/labels")" 8 "labels"
for i in {1..8}; do
	status_of 'x["uuid"]' "$TEST_TMP/mnt$i"
done | sort -u >"$TEST_TMP/uuids"
assert_eq "$(cat "$TEST_TMP/uuids")" "$(value 'x["uuid"]' "$(cat "$TEST_TMP/back/.ckptfs/version.json")")" "uuid"
for i in {1..8}; do
	"$CKPTFS" umount "$TEST_TMP/mnt$i" &
done
wait
assert_eq "$(ckptfs_mounts)" "" "mounts left"
assert_eq "$(find "$CKPTFS_RUN_DIR" -mindepth 1)" "" "files left in the run directory"
