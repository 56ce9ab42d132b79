#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every key is accepted by a config file, also by one with a relative path; -o wins over it, wherever it stands.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
cat >"$TEST_TMP/config.json" <<'END'
{
	"host_cache_size": 2, "pin_host_cache": false, "parser_threads": 3, "flush_depth": "4", "flush_bw": "1G",
	"chunk_size": "4M", "fsync": "barrier-all", "commit_timeout_s": 1, "order_timeout_s": 2,
	"stall_timeout_s": 3, "quiet_s": 4, "open_max_s": 5, "io_retry_s": 6, "lease_s": 7, "cow_max": "2G",
	"on_full": "delete_last", "cache_per_uid": "1G", "node": "from-file", "coord": "dir",
	"rules": [{"name": "own", "match": ["own-*"], "done": [["all_closed"]]}], "capture_bw": 1000, "capture_check": "off", "log_level": "warn",
	"allow_other": false
}
END
mkdir "$TEST_TMP/back" "$TEST_TMP/mnt"
for key in $(option_keys); do
	grep -qF "\"$key\"" "$TEST_TMP/config.json" || die "the test lacks the key $key"
done

# shown FILE_KEY: value and source, as config.json has them.
shown() {
	value "x['$1']['value'], x['$1']['source']" "$(cat "$TEST_TMP/mnt/.ckptfs/config.json")"
}

cd "$TEST_TMP" || die "cannot enter $TEST_TMP"
expect_ok "$CKPTFS" mount -o config=config.json back mnt
assert_eq "$(shown node)" "('from-file', 'config file')"
assert_eq "$(shown pin_host_cache)" "(False, 'config file')"
assert_eq "$(shown quiet_s)" "('4', 'config file')"
assert_eq "$(shown rules)" "([{'name': 'own', 'match': ['own-*'], 'done': [['all_closed']]}], 'config file')"
assert_eq "$(status_of 'x["node"]' mnt)" from-file
expect_ok "$CKPTFS" umount mnt

for options in node=from-option,config=config.json config=config.json,node=from-option; do
	expect_ok "$CKPTFS" mount -o "$options" back mnt
	assert_eq "$(shown node)" "('from-option', 'option')" "with $options"
	assert_eq "$(shown fsync)" "('barrier-all', 'config file')"
	expect_ok "$CKPTFS" umount mnt
done

expect_ok "$CKPTFS" mount -o node=a -o node=b back mnt -o node=c
assert_eq "$(shown node)" "('c', 'option')" "the last of several"
assert_eq "$(shown fsync)" "('barrier', 'default')"
assert_eq "$(shown chunk_size)" "(None, 'default')"
expect_ok "$CKPTFS" umount mnt
