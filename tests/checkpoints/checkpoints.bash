# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of checkpoints that are directories; source it after lib.sh. Their programs begin with
# `from checkpoints import *`.

. "$SRC/tests/units/units.bash"

PYTHONPATH=$SRC/tests/checkpoints:$PYTHONPATH
