#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The sample config file explains each key that there is, and no other, and is accepted as it is; comments have no effect.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
# Prints the keys that are explained; writes the sample with the rule that it has as an example, and with less memory.
python3 - "$SRC/mount-scripts/ckptfs.json" "$TEST_TMP/small.json" >"$TEST_TMP/explained" <<'END' || die "see above"
import json, re, sys
with open(sys.argv[1], encoding="utf-8") as file:
	sample = json.load(file)
for key in sample:
	assert key[0] == "#" or "# " + key in sample, key + " is set and not explained"
	if key[:2] == "# ":
		print(key[2:])
assert "host_cache_size" not in sample, "a size that is too large for some host"
sample["rules"] = [json.loads(re.search("{.*}", sample["# rules"])[0])]
sample["host_cache_size"] = "64M"
with open(sys.argv[2], "w", encoding="utf-8") as file:
	json.dump(sample, file)
END
assert_eq "$(sort "$TEST_TMP/explained")" "$(option_keys | sort)" "keys of the sample, and those that there are"

BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
expect_ok "$CKPTFS" mount -o "config=$TEST_TMP/small.json" "$BACK" "$MNT"
config=$(cat "$MNT/.ckptfs/config.json")
assert_eq "$(value 'x["io_retry_s"]["value"], x["on_full"]["source"], [k for k in x if k[0] == "#"]' "$config")" \
	"('300', 'default', [])"
assert_eq "$(value 'x["rules"]["value"][0]["name"]' "$config")" mine
umount_ckptfs
