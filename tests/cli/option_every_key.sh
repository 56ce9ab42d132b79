#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every key that `mount --help` lists is accepted by -o; config.json shows each.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
# Keys and values, as -o takes them; rules is for the config file alone.
values='host_cache_size=32M pin_host_cache=no parser_threads=3 flush_depth=4 flush_bw=1G chunk_size=4M
fsync=durable commit_timeout_s=1 order_timeout_s=2 stall_timeout_s=3 quiet_s=4 open_max_s=5 io_retry_s=6 lease_s=7
cow_max=2 on_full=wait:30 cache_per_uid=100K node=gpu07 coord=dir capture_bw=1000
capture_check=all log_level=debug allow_other=false'
for key in $(option_keys); do
	[ "$key" = rules ] || [[ " ${values//$'\n'/ } " == *" $key="* ]] || die "the test lacks the key $key"
done

mkdir "$TEST_TMP/back" "$TEST_TMP/mnt"
# shellcheck disable=SC2086 # a list
expect_ok "$CKPTFS" mount -o "$(printf '%s,' $values)" "$TEST_TMP/back" "$TEST_TMP/mnt"
config=$(cat "$TEST_TMP/mnt/.ckptfs/config.json")
for pair in $values; do
	key=${pair%%=*} wanted=${pair#*=}
	case $key in pin_host_cache | allow_other) wanted=False ;; esac
	assert_eq "$(value "x['$key']['value']" "$config")" "$wanted" "$key in config.json"
	assert_eq "$(value "x['$key']['source']" "$config")" option "$key in config.json"
done
assert_eq "$(value "x['rules']['source']" "$config")" default
expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"
