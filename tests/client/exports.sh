#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What programs see of libckptfs is named ckptfs_; nothing of ours is linked with CUDA.

. "${SRC:?}/tests/lib.sh"
needs nm readelf

library=$BUILD/lib/libckptfs.so
expect_ok readelf -d "$library"
assert_contains "$OUT" "soname: [libckptfs.so.1]"
assert_eq "$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -vE '^(ckptfs_|__(asan|ubsan|odr_asan)_)')" "" \
	"symbols of others"
for file in "$library" "$CKPTFS"; do
	expect_ok readelf -d "$file"
	[[ $OUT != *cuda* ]] || die "$file needs CUDA: $OUT"
done
