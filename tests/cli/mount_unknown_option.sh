#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses an option that it does not know and names the nearest that it does.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir "$BACK" "$TEST_TMP/mnt"
while read -r option nearest; do
	refused 1 "unknown option '${option%%=*}'; did you mean '$nearest'? Nothing was mounted" \
		-o "$option" "$BACK" "$TEST_TMP/mnt"
done <<'END'
chunksize=4M chunk_size
host_cache_sise=1 host_cache_size
log-level=debug log_level
alow_other allow_other
fsink=durable fsync
END
assert_contains "$OUT" "\`ckptfs mount --help\` lists every option"
refused 1 "unknown option 'bogus'" -o node=n1,bogus,ro "$BACK" "$TEST_TMP/mnt"
refused 1 "unknown option 'bogus'" -o node=n1 -o bogus "$BACK" "$TEST_TMP/mnt"
refused 1 "unknown option 'bogus'" "$BACK" "$TEST_TMP/mnt" -o bogus
refused 1 "unknown option 'rox'. Nothing was mounted" -o rox "$BACK" "$TEST_TMP/mnt"
refused 1 "unknown option" -o "$(printf 'x%.0s' {1..5000})" "$BACK" "$TEST_TMP/mnt"
