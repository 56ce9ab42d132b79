#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tools that measure write the tables of the documents: a fresh row takes the place of the old one, the others stay.

. "${SRC:?}/tests/lib.sh"

export PYTHONDONTWRITEBYTECODE=1
mkdir -p tree/tests tree/client build/frameworks/results
cp -r "$SRC/tests/frameworks" "$SRC/tests/bench" tree/tests/
cp "$SRC/client/ckptfs-frameworks.7" tree/client/

table=tree/tests/frameworks/table.py
expect_ok python3 "$table" --check
cat >build/frameworks/results/torch_save.py.json <<'END'
{"name": "torch.save", "version": "9.9.9", "switch": null, "costs": [1, 0, 0], "switched": null, "captured": 0,
 "commits": "the last close of the file", "lazily": null, "fsyncs": 0, "rules": [], "prompt": true,
 "killed": {"rank": 7, "job": 8, "daemon": 9}}
END
others=$(grep -c '^\.It' tree/client/ckptfs-frameworks.7)
BUILD=$PWD/build expect_ok python3 "$table"
assert_contains "$OUT" "| torch.save | 9.9.9 | the last close of the file | 7, 8, 9 |"
assert_contains "$OUT" "24 kills in 1 set-ups on one node"
expect_ok python3 "$table" --check
BUILD=$PWD/build expect_ok python3 "$table" --record
expect_ok python3 "$table" --check
assert_eq "$(grep -c '^\.It' tree/client/ckptfs-frameworks.7)" "$others" "rows"
assert_contains "$(cat tree/client/ckptfs-frameworks.7)" ".It torch.save (9.9.9)"
assert_contains "$(cat tree/client/ckptfs-frameworks.7)" "Kills survived: 7 of a rank, 8 of a job, 9 of a daemon."
sed -i 's/^Kills survived: 7/Kills survived: 70/' tree/client/ckptfs-frameworks.7
expect_fail python3 "$table" --check
assert_contains "$OUT" "is not what results.json says"

record=tree/tests/bench/record.py
expect_ok python3 "$record" --check
head=$(grep -m 1 '^| link | save |' tree/tests/bench/RESULTS.md)
rows=$(grep -c '^| ' tree/tests/bench/RESULTS.md)
HEAD=$head expect_ok python3 - <<'END'
import os, sys
sys.path.insert(0, "tree/tests/bench")
import record
record.take_rows({"flush": [["first write to published", "12345 MiB/s", "fio 1 MiB/s", "1.00x", "0.9x", "yes"]]}, "make bench")
record.take_table("network", ["567 MB of model.", "", os.environ["HEAD"], "|---|---|", "| 1 MB/s | `x` | 2 s |"], "make bench")
END
expect_ok python3 "$record" --check
page=$(cat tree/tests/bench/RESULTS.md)
assert_contains "$page" "| first write to published | 12345 MiB/s | fio 1 MiB/s | 1.00x | 0.9x |"
assert_contains "$page" "| 1 MB/s | \`x\` | 2 s |"
assert_eq "$(grep -c '^| ' tree/tests/bench/RESULTS.md)" $((rows + 1)) "rows"
sed -i 's/12345/12346/' tree/tests/bench/RESULTS.md
expect_fail python3 "$record" --check
assert_contains "$OUT" "is not what recorded.json says"
