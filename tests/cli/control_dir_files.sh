#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# .ckptfs is not listed but found; its files are valid JSON, and metrics is valid Prometheus text that counts.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs -o node=n1
head -c 5000 /dev/zero >"$MNT/file"
cat "$MNT/file" >/dev/null
assert_eq "$(ls -A "$MNT")" file "the listing"
assert_eq "$(find "$MNT" -mindepth 1)" "$MNT/file" "what find sees"
assert_eq "$(ls -A "$MNT/.ckptfs")" $'config.json\nfailures.json\nmetrics\nstatus.json\ntrace.json'
assert_eq "$(stat -c '%F %a' "$MNT/.ckptfs")" "directory 555"
assert_eq "$(stat -c '%A' "$MNT/.ckptfs/metrics")" "-r--r--r--"
[ ! -e "$MNT/.ckptfs/none" ] || die "a file that is none"
[ ! -e "$MNT/.ckptfs/version.json" ] || die "the backing's .ckptfs shows"
[ ! -e "$MNT/.ckptfs/txn" ] || die "the backing's .ckptfs shows"
[ -e "$BACK/.ckptfs/version.json" ] || die "the backing lacks .ckptfs"

# Those in deeper directories are ordinary names.
mkdir -p "$MNT/dir/.ckptfs"
echo data >"$MNT/dir/.ckptfs/file"
assert_eq "$(cat "$BACK/dir/.ckptfs/file")" data

for name in status config failures; do
	value 'x' "$(cat "$MNT/.ckptfs/$name.json")" >/dev/null
done
assert_eq "$(value 'x["pid"], x["node"]' "$(cat "$MNT/.ckptfs/status.json")")" "($(daemon_pid), 'n1')"
assert_eq "$(value 'x' "$(cat "$MNT/.ckptfs/failures.json")")" "[]"
assert_eq "$(value 'x["node"]' "$(cat "$MNT/.ckptfs/config.json")")" \
	"{'value': 'n1', 'source': 'option', 'effective': True}"
# In small pieces, and from the middle.
assert_eq "$(dd if="$MNT/.ckptfs/config.json" bs=7 2>/dev/null)" "$(cat "$MNT/.ckptfs/config.json")"
assert_eq "$(tail -c +1000 "$MNT/.ckptfs/config.json" | head -c 50)" \
	"$(tail -c +1000 < <(cat "$MNT/.ckptfs/config.json") | head -c 50)"

cat "$MNT/.ckptfs/metrics" >"$TEST_TMP/metrics"
expect_ok python3 - "$TEST_TMP/metrics" <<'END'
import re, sys

kind, seen, values, last = {}, set(), {}, {}
for line in open(sys.argv[1], encoding="utf-8"):
	assert line.endswith("\n"), line
	line = line[:-1]
	if line.startswith("# HELP "):
		assert line.split(" ", 3)[2] not in kind, line
		continue
	if line.startswith("# TYPE "):
		_, _, name, what = line.split(" ")
		assert what in ("counter", "gauge", "histogram"), line
		kind[name] = what
		continue
	m = re.fullmatch(r'([a-z_]+)\{([a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*)\} ([0-9.]+)', line)
	assert m, line
	name, labels, value = m.group(1), m.group(2), float(m.group(3))
	base = name if name in kind else re.sub(r"_(bucket|sum|count)$", "", name)
	assert base in kind and base.startswith("ckptfs_"), line
	assert (name, labels) not in seen, "twice: " + line
	assert 'node="n1"' in labels, line
	assert kind[base] != "counter" or name.endswith("_total"), line
	seen.add((name, labels))
	values[name, labels] = value
	if name.endswith("_bucket"):
		rest = re.sub(r',le="[^"]*"', "", labels)
		assert value >= last.get((name, rest), 0), "a bucket below the one before: " + line
		last[name, rest] = value
for (name, labels), value in values.items():
	if name.endswith("_seconds_count"):
		assert value == last[name.replace("_count", "_bucket"), labels], name + labels
		assert values[name.replace("_count", "_bucket"), labels + ',le="+Inf"'] == value
assert values["ckptfs_written_bytes_total", 'node="n1"'] == 5005
assert values["ckptfs_failures_total", 'node="n1"'] == 0
assert values["ckptfs_open_handles", 'node="n1"'] >= 0
END
umount_ckptfs
