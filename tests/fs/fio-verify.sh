#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fio writes at random places and verifies what it reads: several jobs, by write and by mmap, through the page cache
# and with direct=1.
#
# timeout: 120

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs fio
mount_ckptfs
verify() {
	expect_ok fio --directory="$MNT" --output="$TEST_TMP/fio.log" --name="$1" --rw=randwrite --bsrange=512-128k \
		--size=12m --numjobs=2 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=42 --group_reporting "${@:2}"
	rm -f "$MNT/$1".*
}
verify psync --ioengine=psync
verify threads --ioengine=psync --thread --fsync=30
verify direct --ioengine=psync --direct=1 --bsrange=4k-128k --blockalign=4k
verify mmap --ioengine=mmap
verify aio --ioengine=libaio --iodepth=16 --direct=1 --bsrange=4k-64k --blockalign=4k
verify mixed --ioengine=pvsync --rw=randrw --overwrite=1
umount_ckptfs
