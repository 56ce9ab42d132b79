#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 300
# cpu: 30
# The example trainer, killed at a random instant and resumed, and its daemon, ends with the weights of an uninterrupted run.
# Without its barrier nothing is committed but what is right. CKPTFS_TEST_KILLS: of the trainer; a half as many of the daemon.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/trainer/trainer.bash"

needs_fuse
each_killed_and_resumed 100 "${CKPTFS_TEST_KILLS-2}"
