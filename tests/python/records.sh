#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What is the digest record of a file, Python finds as the daemon does: client/python/ckptfs/resume.py reads the
# attribute by itself, where the library is not there.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs setfattr
echo x >probe
setfattr -n user.ckptfs.xxh3 -v x probe 2>/dev/null || skip "no extended attributes in $TEST_TMP"
program "$SRC/tests/fuzz/corpus/digest_record" "$CKPTFS" <<'END'
import os, subprocess, sys
from ckptfs import resume

corpus, ckptfs = sys.argv[1:]
HEX = b"0123456789abcdef0123456789abcdef"
assert resume._digest_record(HEX + b" 5000 1795743127935845755") == (5000, 1795743127935845755)
texts = [open(os.path.join(corpus, name), "rb").read() for name in sorted(os.listdir(corpus))]
texts += [HEX + end for end in (b" 17 4", b" 0 0", b"", b" 1", b" 1 2 ", b" 1 2\n", b"  1 2", b" 01 2", b" +1 2", b" 1,2",
	b" 1 2 3", b" 18446744073709551615 1", b" 18446744073709551616 1", b" 1 99999999999999999999", b" 1 2\0")]
texts += [HEX.upper() + b" 1 2", b" " + HEX + b" 1 2", HEX[1:] + b" 1 2", b"0" + HEX + b" 1 2", b"\xff"]
with open("a.pt", "wb") as file:
	file.write(b"content")
records = 0
for text in texts:
	os.setxattr("a.pt", "user.ckptfs.xxh3", text)
	told = subprocess.run([ckptfs, "verify", "a.pt"], capture_output=True, text=True).stderr
	assert ("is not a record of ckptfs" in told) != ("was changed since" in told), (text, told)
	assert (resume._digest_record(text) is None) == ("is not a record of ckptfs" in told), (text, told)
	records += resume._digest_record(text) is not None
assert resume._digest_record(HEX + b" 1 " + b"9" * 5000) is None # more digits than int() takes
assert 3 <= records <= len(texts) - 10, records
END
