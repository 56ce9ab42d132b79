#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 300
# The example trainer, killed at a random instant and resumed, and its daemon, ends with the weights of an uninterrupted run.
# Without its barrier nothing is committed but what is right. CKPTFS_TEST_KILLS: of the trainer; a half as many of the daemon.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/trainer/trainer.bash"

needs_fuse
kills=${CKPTFS_TEST_KILLS-2}
plain_weights 100
mount_ckptfs -o host_cache_size=64M
killed_and_resumed trainer 100 "$kills"
umount_ckptfs
rm -rf "${BACK:?}"/step-*
mount_again
killed_and_resumed daemon 100 $((kills / 2))
umount_ckptfs
