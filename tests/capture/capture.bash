# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of captures; source it after lib.sh. Their programs begin with `from capture import *`.

. "$SRC/tests/checkpoints/checkpoints.bash"

PYTHONPATH=$SRC/tests/capture:$PYTHONPATH
