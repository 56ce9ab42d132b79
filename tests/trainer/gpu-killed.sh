#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# timeout: 300
# The example trainer with its tensors on a GPU, the fake one, killed at a random instant and resumed, and its daemon, ends with
# the weights of an uninterrupted run on the host. CKPTFS_TEST_KILLS: of the trainer; a half as many of the daemon.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/trainer/trainer.bash"
. "$SRC/tests/gpu/fake.bash"
unset FAKE_CUDA_LOG

needs_fuse
TRAINER_ARGS=(--device cuda)
ELEMENTS=50000
export FAKE_CUDA_DTOH_GBPS=0.5 # so that a capture is under way at many an instant
each_killed_and_resumed 100 "${CKPTFS_TEST_KILLS-2}"
