#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 300
# `make dist` makes the same bytes a second time, elsewhere and under another umask.

. "${SRC:?}/tests/lib.sh"

compgen -G "$BUILD/dist/*.tar.gz" >/dev/null || skip "make dist has not made anything"
umask 077
expect_ok make --no-print-directory -s -C "$SRC" O="$BUILD" -o all DIST="$TEST_TMP/dist" dist
for file in "$BUILD"/dist/*.tar.gz "$BUILD"/dist/*.whl "$BUILD"/dist/*.deb; do
	[ ! -e "$file" ] || expect_ok cmp "$file" "$TEST_TMP/dist/${file##*/}"
done
