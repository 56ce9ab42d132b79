#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All documents become HTML without a dead link, and every manual page is installed and uninstalled.

. "${SRC:?}/tests/lib.sh"

needs mandoc make

expect_ok python3 "$SRC/tests/docs/render.py" --out "$TEST_TMP/html"
for page in README.html ckptfs.1.html ckptfs.3.html ckptfs-conf.5.html mount.ckptfs.8.html; do
	[ -s "$TEST_TMP/html/$page" ] || die "no $page"
	grep -qF "href=\"$page\"" "$TEST_TMP/html/index.html" || die "the index does not name $page"
done
# A page links to the others by name.
grep -q 'href="ckptfs-conf.5.html"' "$TEST_TMP/html/ckptfs.1.html" || die "ckptfs.1 does not link to ckptfs-conf.5"

# A link to what is not there is an error that names both.
mkdir -p "$TEST_TMP/tree/tests/docs"
cp "$SRC/tests/docs/render.py" "$TEST_TMP/tree/tests/docs/"
printf '# Title\n\nSee [that](missing.md).\n' >"$TEST_TMP/tree/README.md"
expect_fail python3 "$TEST_TMP/tree/tests/docs/render.py" --out "$TEST_TMP/html2"
assert_contains "$OUT" "README.md: the link 'missing.md' leads nowhere"
printf '# Title\n\nSee [that](#no-such-part).\n' >"$TEST_TMP/tree/README.md"
expect_fail python3 "$TEST_TMP/tree/tests/docs/render.py" --out "$TEST_TMP/html2"
assert_contains "$OUT" "'#no-such-part' leads nowhere"

installed=$(make -C "$SRC" --no-print-directory -s -n -o all O="$BUILD" DESTDIR=/root install)
removed=$(make -C "$SRC" --no-print-directory -s -n O="$BUILD" DESTDIR=/root uninstall)
nr=0
for page in "$SRC"/*/*.[1-8] "$SRC"/*/*/*.[1-8]; do
	[ -f "$page" ] && [[ $page != "$BUILD"/* ]] || continue
	to=/share/man/man${page##*.}/${page##*/}
	assert_contains "$installed" "$to"
	assert_contains "$removed" "$to"
	nr=$((nr + 1))
done
[ "$nr" -ge 9 ] || die "only $nr manual pages were found"
