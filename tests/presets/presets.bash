# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of the built-in rules; source it after lib.sh. Their programs are in Python, with presets.py.

. "$SRC/tests/units/units.bash"

PYTHONPATH=$SRC/tests/presets:$PYTHONPATH

# where_quiet SECONDS: a mount in which that long a silence is evidence.
where_quiet() {
	mount_ckptfs -o "quiet_s=$1,cow_max=64M" "$TEST_TMP/back-$1" "$TEST_TMP/mnt-$1"
}
