#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# timeout: 1500
# Agreement over nodes, explored and simulated for longer than `make check` has time for: four minutes on two idle cores.
# agreement.c says how deep that is.

. "${SRC:?}/tests/lib.sh"

CKPTFS_TEST_DEEP=1 "$BUILD/tests/unit/agreement.t" >half 2>&1 &
expect_ok env CKPTFS_TEST_DEEP=2 "$BUILD/tests/unit/agreement.t"
echo "$OUT"
wait "$!" || die "$(cat half)"
cat half
expect_ok env CKPTFS_TEST_DEEP=all CKPTFS_TEST_LONG=1 "$BUILD/tests/unit/agreement_many.t"
expect_ok env CKPTFS_TEST_DEEP=all CKPTFS_TEST_LONG=1 "$BUILD/tests/unit/agreement_load.t"
