#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses values that a key's type does not allow, saying what it expects.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir "$BACK" "$TEST_TMP/mnt"

# bad EXPECTED KEY VALUE...: -o KEY=VALUE is refused for each.
bad() {
	local expected=$1 key=$2 value
	shift 2
	for value; do
		refused 1 "option $key=$value is not valid: expected $expected" \
			-o "$key=$value" "$BACK" "$TEST_TMP/mnt"
	done
}

bad "a size, such as 512M, 16G" chunk_size "" x -1 1X 4Mb/s 1.5G " 1" 9999999999999G 0% 101% 1.5%
bad "bytes a second, such as 400M or 2G" flush_bw "" fast -1 1e9 25%
bad "true or false" pin_host_cache "" maybe TRUE 2
bad "a whole number" parser_threads "" -1 two 1.5 4294967296 2K
bad "whole seconds" quiet_s "" -1 1m 0x10
bad "barrier|durable|barrier-all" fsync "" sometimes
bad "fail|wait:SECONDS|delete_last" on_full "" wait wait: wait:x wait:-1 delete
bad "off|sample|all" capture_check "" some
bad "error|warn|info|debug" log_level "" loud 1
bad "a JSON list, in the config file" rules "" "[]"
bad "a text of 1 to 255 characters" coord "" $'0\n1' "$(printf '1%.0s' {1..256})"
bad "a text of 1 to 255 characters" node "" a/b .. .hidden $'a\tb' "$(printf 'n%.0s' {1..65})" 'a"b' $'\xff' 'a b'
refused 1 "option chunk_size= is not valid" -o chunk_size "$BACK" "$TEST_TMP/mnt"
