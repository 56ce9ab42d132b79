#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# timeout: 3600
# Agreement over nodes, explored and simulated for longer than `make check` has time for.

. "${SRC:?}/tests/lib.sh"

export CKPTFS_TEST_DEEP=1
"$BUILD/tests/unit/agreement.t" && "$BUILD/tests/unit/agreement_many.t"
