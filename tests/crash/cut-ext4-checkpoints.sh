#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing on ext4, cut off in the middle of saves of checkpoints of many files, has exactly those that were committed,
# whole, for the next mount.
#
# heavy: check-crash
# needs: root
# timeout: 400

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/crash/cut.bash"
. "$SRC/tests/crash/cut-checkpoints.bash"

cut_off_checkpoints ext4
