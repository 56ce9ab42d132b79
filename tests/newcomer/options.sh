#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What newcomers write wrong in mount options and in the config file: each is refused before anything is touched, with
# what to write instead.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
cd "$TEST_TMP" || die "cannot enter"
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"

# option PHRASE OPTIONS: `mount -o OPTIONS` is refused and says PHRASE.
option() {
	refused 1 "$1" -o "$2" "$BACK" "$MNT"
	assert_contains "$OUT" "Nothing was"
}

# Other words for an option are known; where nothing is near, nothing is suggested.
while read -r given meant; do
	option "unknown option '${given%%=*}'; did you mean '$meant'?" "$given"
done <<'END'
cache=4G host_cache_size
size=4G host_cache_size
memory=4G host_cache_size
sync fsync
bandwidth=1G flush_bw
etcd=http://a:2379 coord
debug log_level
hostname=gpu07 node
host_cache=4G host_cache_size
END
for given in big_writes kernel_cache max_background=12 foo; do
	option "unknown option '${given%%=*}'. Nothing was mounted. \`ckptfs mount --help\` lists every option" "$given"
done
option "the option 'cpus' does not exist any more. It never had an effect: leave it out; CPUAffinity=" cpus=0-3

# Sizes.
option "more than nine tenths of the " host_cache_size=100%
assert_contains "$OUT" "of memory of this host"
option "more than nine tenths of the " host_cache_size=100000G
assert_contains "$OUT" "of memory of this host"
[[ $OUT =~ "largest possible here: "([0-9]+[GM])$ ]] || die "no size to take: $OUT"
option "host_cache_size=16384 is not valid: expected a size with a unit: a number alone is GiB, and 16384 GiB was hardly meant" \
	host_cache_size=16384
assert_contains "$OUT" "write 16384M for MiB, or 16384G"
for size in 1.5G "64 GB" 120% all 4gigs; do
	option "host_cache_size=$size is not valid: expected a size, such as 512M, 16G (16GB and 16GiB are the same) or 25%" \
		"host_cache_size=$size"
done
for size in 64MB 64MiB 64m 65536KB 1%; do
	expect_ok "$CKPTFS" mount -o "host_cache_size=$size" "$BACK" "$MNT"
	[ "$size" = 1% ] || assert_eq "$(status_of 'x["cache"]["size"]')" 67108864 "$size"
	umount_ckptfs
done

# A comma inside a value; coord without an address; etcd that is not there.
option "unknown option 'http://b:2379': a comma ends the value before it" coord=etcd:http://a:2379,http://b:2379
assert_contains "$OUT" "-o 'coord=etcd:http://a:2379\\,http://b:2379'"
option "it is dir, etcd:URL[,URL...] (in -o each comma is \\,), or etcd:/FILE.json" coord=etcd
refused 1 "the coordination service cannot be used: " -o host_cache_size=64M,coord=etcd:http://127.0.0.1:9 "$BACK" "$MNT"
assert_contains "$OUT" "127.0.0.1:9"
assert_contains "$OUT" "start it, or correct option coord"

# Words that are no value.
option "fsync=always is not valid: expected barrier|durable|barrier-all" fsync=always
option "on_full=wait is not valid: expected fail|wait:SECONDS|delete_last" on_full=wait
option "rules=[] is not valid: expected a JSON list, in the config file" "rules=[]"
option "quiet_s=5s is not valid: expected whole seconds" quiet_s=5s
option "pin_host_cache=on is not valid: expected true or false" pin_host_cache=on

# The config file: where it is wrong, and what was meant.
file=$TEST_TMP/ckptfs.json
printf '{\n\t"quiet_s": 5,\n}\n' >"$file"
option "$file:3: " "config=$file"
echo '{"host_cache_sise": "4G"}' >"$file"
option "$file: unknown key 'host_cache_sise'; did you mean 'host_cache_size'?" "config=$file"
echo '{"cache_size": "4G"}' >"$file"
option "$file: unknown key 'cache_size'; did you mean 'host_cache_size'?" "config=$file"
echo '{"host_cache_size": 65536}' >"$file"
option "$file: key host_cache_size is not valid: expected a size with a unit: a number alone is GiB, and 65536 GiB was hardly meant" "config=$file"
echo '{"cpus": "0-3"}' >"$file"
option "$file: the key 'cpus' does not exist any more" "config=$file"
printf 'host_cache_size: 4G\n' >"$file" # YAML
option "the config file is one JSON object of option names and values" "config=$file"
option "cannot read the config file $TEST_TMP/none.json: No such file or directory" "config=$TEST_TMP/none.json"

# The limit of a control group is told as what it is.
[ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ] || exit 0
mount -t tmpfs tmpfs /sys/fs/cgroup || skip "cannot put another cgroup in place"
echo 1073741824 >/sys/fs/cgroup/memory.max
option "more than nine tenths of the 1024 MiB that the cgroup of this process may use (/sys/fs/cgroup/memory.max)" host_cache_size=4G
assert_contains "$OUT" "largest possible here: 921M, or raise that limit"
expect_ok "$CKPTFS" mount -o host_cache_size=25% "$BACK" "$MNT"
assert_eq "$(status_of 'x["cache"]["size"]')" 268435456 "25 % of the limit"
umount_ckptfs
