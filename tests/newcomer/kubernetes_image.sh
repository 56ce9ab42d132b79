#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The image that the example for Kubernetes describes has each library that the program is linked with, and no package beyond
# these. What the program opens at run time is named beside the list.

. "${SRC:?}/tests/lib.sh"

needs ldd dpkg
grep -qs '^ID=debian' /etc/os-release && grep -qs '^VERSION_ID="12"' /etc/os-release ||
	skip "the example's packages are those of Debian 12"
example=$SRC/mount-scripts/kubernetes.yaml

# package_of LIBRARY: prints it.
package_of() {
	dpkg -S "*/$(basename "$(realpath "$1")")" | sed -n '1s/:.*//p'
}

listed=$(sed -n 's/^#.*apt-get install -y --no-install-recommends //p' "$example" | tr ' ' '\n' | sort)
needed=$(ldd "$CKPTFS" | sed -n '/lib\(c\|m\|dl\|rt\|pthread\|resolv\|asan\|ubsan\|tsan\)\.so/d; s/.*=> \([^ ]*\) .*/\1/p' |
	while read -r library; do package_of "$library"; done | sort -u)
[ -n "$needed" ] || die "ldd names no library"
assert_eq "$listed" "$needed" "the packages of the image"

while read -r library; do
	file=$(ldconfig -p | sed -n "s/.*$library .*=> //p" | head -n 1)
	[ -n "$file" ] || skip "$library is not here"
	assert_contains "$(sed -n '1,/^apiVersion/p' "$example")" "$(package_of "$file")"
done < <(sed -n 's/^#define LIBRARY *"\(lib[^"]*\)".*/\1/p' "$SRC"/engine/*/*.c "$SRC"/fs/*.c)
