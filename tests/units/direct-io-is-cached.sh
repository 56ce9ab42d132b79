#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that opens a checkpoint file with O_DIRECT does not wait for the storage, and may write any length: the bytes go
# into the cache. torch_checkpointing writes so.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs -o flush_bw=1K
program='
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
for part in (b"a" * 3000001, b"b" * 77, b"c" * 2000000):
	assert os.write(fd, part) == len(part)
os.close(fd)
got = open(sys.argv[1], "rb").read()
assert got == b"a" * 3000001 + b"b" * 77 + b"c" * 2000000
'
expect_ok python3 -c "$program" "$MNT/x.pt"
dirty=$("$CKPTFS" why --json "$MNT/x.pt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["dirty_bytes"])')
[ "$dirty" -gt 3000000 ] || die "only $dirty bytes of 5000078 are in the cache alone: the writes waited for the storage"
