#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# version tells what this program is and what it finds on the host, for people and as JSON.

. "${SRC:?}/tests/cli/verbs.sh"

wanted=$(sed -n 's/.*CKPTFS_VERSION[[:space:]]*"\(.*\)".*/\1/p' "$SRC/client/ckptfs_abi.h")
cd "$TEST_TMP" || die "cannot enter"
expect_ok "$CKPTFS" version --json
assert_eq "$(value 'x["version"]' "$OUT")" "$wanted"
assert_eq "$(value 'x["kernel"]' "$OUT")" "$(uname -r)"
assert_eq "$(value 'sorted(x)' "$OUT")" "['/dev/fuse', 'abi', 'features', 'format', 'kernel', 'libfuse', 'version']"
assert_eq "$(value 'set(x["features"].values()) <= {"yes", "no", "unknown", "off"}' "$OUT")" True
expect_ok "$CKPTFS" version
assert_eq "${OUT%%$'\n'*}" "ckptfs $wanted"
assert_contains "$OUT" "passthrough"
assert_contains "$OUT" "without it: "
for arguments in --version -V; do
	expect_ok "$CKPTFS" "$arguments"
	assert_eq "$OUT" "ckptfs $wanted"
done
# Where it cannot look at the directory.
mkdir gone
cd gone || die "cannot enter"
rmdir ../gone
expect_ok "$CKPTFS" version
expect_ok "$CKPTFS" version --json
assert_eq "$(value 'x["version"]' "$OUT")" "$wanted"
