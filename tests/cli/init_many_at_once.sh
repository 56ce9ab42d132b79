#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Any number of inits of one directory at the same time agree on one uuid and leave no temporary files.

. "${SRC:?}/tests/cli/verbs.sh"

for round in {1..5}; do
	mkdir "$TEST_TMP/back$round"
	pids=()
	for i in {1..20}; do
		"$CKPTFS" init "$TEST_TMP/back$round" >"$TEST_TMP/said$i" 2>&1 &
		pids+=($!)
	done
	for i in {1..20}; do
		wait "${pids[i - 1]}" || die "init $i failed: $(cat "$TEST_TMP/said$i")"
	done
	assert_eq "$(sort -u "$TEST_TMP"/said*)" "$TEST_TMP/back$round is ready, uuid \
$(value 'x["uuid"]' "$(cat "$TEST_TMP/back$round/.ckptfs/version.json")")"
	assert_eq "$(ls -A "$TEST_TMP/back$round/.ckptfs")" $'digests\nnodes\ntxn\nversion.json'
done
