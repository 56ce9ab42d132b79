#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing on ext4, cut off in the middle of saves over existing files, has the old or the new file, whole, and what
# was promised.
#
# heavy: check-crash
# needs: root
# timeout: 240

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/crash/cut.bash"

cut_off ext4
