#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# timeout: 600
# The bench runs, fills its table and its JSON, and leaves nothing behind, also when it is interrupted.

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs python3
[ -x "$BUILD/tests/bench/fsload" ] || skip "needs $BUILD/tests/bench/fsload (make bench builds it)"
mkdir "$TEST_TMP/tmp"

bench=(env --default-signal=INT TMPDIR="$TEST_TMP/tmp" python3 "$SRC/tests/bench/bench.py" --quick
	--output "$TEST_TMP/bench.json")
# In the test's own mount namespace it needs none of its own, and what it leaves can be seen.
[ "$TEST_PRIVATE" != 1 ] || bench+=(--private)

nothing_left() {
	assert_eq "$(ls -A "$TEST_TMP/tmp")" "" "files left by the bench"
	! grep "$TEST_TMP/tmp" /proc/self/mountinfo || die "a mount left by the bench"
}

expect_ok "${bench[@]}" --rounds 1
assert_contains "$OUT" "what  "
assert_contains "$OUT" "bench: all samples are in $TEST_TMP/bench.json"
nothing_left
table=$OUT
expect_ok python3 - "$TEST_TMP/bench.json" <<'END'
import json, sys
rows = {row["name"]: row for row in json.load(open(sys.argv[1]))["rows"]}
wanted = ("save save-2 flush durable reread cpu unit commit "
          "read read-user view view-columns view-first view-memory view-beside view-merge view-consolidate "
          "write write-4 create stat readdir ls memory-open memory-seen memory-unit cluster-records "
          "coordinator-cpu coordinator-memory coordinator-cpu-ranks coordinator-memory-ranks commit-nodes commit-nodes-etcd "
          "lazy lazy-capture lazy-tight lazy-many lazy-durable lazy-steps torch torch-fsync dcp dcp-thread dcp-process torch-lazy first-save objects train torch-load dcp-load iterations-2-3 "
          "net-100-torch net-100-dcp net-100-dcp-async net-400-torch net-400-dcp net-400-dcp-async").split()
assert list(rows) == wanted, list(rows)
for row in rows.values():
    assert row["ckptfs"] or row["ratio"] or row["note"].startswith("not measured"), row
assert rows["write"]["ratio"] > 0 and rows["write"]["goal"] == 0.6, rows["write"]
save = {each["with"]: each for each in rows["save"]["compared"]}
assert save["tmpfs"]["goal"] == 1.3 and save["backing"]["ratio"] > 0, save
assert rows["commit"]["goal"] == 12 and rows["commit"]["ratio"] > 0, rows["commit"]
assert rows["lazy"]["goal"] == 0.01 and rows["lazy"]["ratio"] > 0, rows["lazy"]
assert rows["torch-lazy"]["goal"] == 0.05 and rows["train"]["goal"] == 1.03, (rows["torch-lazy"], rows["train"])
if rows["train"]["ckptfs"]: # there is torch
    assert rows["torch-lazy"]["ratio"] > 0 and rows["torch-lazy"]["also"]["captured"]["medians"]["ckptfs"] > 0, rows["torch-lazy"]
    assert rows["train"]["baseline"] == "no saves" and rows["train"]["ratio"] > 0, rows["train"]
    assert sorted(rows["train"]["beside"]) == ["DCP async_save", "torch.save", "torch.save, mount"], rows["train"]
    assert all(rows["train"]["beside"].values()), rows["train"]
    assert rows["first-save"]["goal"] == 3 and rows["first-save"]["ratio"] > 0, rows["first-save"]
    assert rows["objects"]["ratio"] > 0, rows["objects"]
    row = rows["iterations-2-3"]
    assert row["baseline"] == "no saves" and row["ratio"] > 0, row
    assert sorted(row["beside"]) == ["DCP async_save", "ckptfs, async_save", "torch_checkpointing"], row
    assert all(row["beside"].values()) and row["samples"]["ckptfs"][0]["blocked"] > 0, row
for name, goal in ("net-100", 0.12), ("net-400", 0.4):
    row = rows[name + "-torch"]
    if row["ckptfs"]: # there are torch and GlusterFS
        assert row["goal"] == goal and row["baseline"] == "plain" and row["ratio"] > 0 and row["beside"]["ckptfs.save"] > 0, row
        assert min(row["also"][key]["medians"]["ckptfs"] for key in ("durable", "committed", "restored")) > 0, row
        assert row["samples"]["ckptfs"][-1]["verified"] > 0 and "verified" not in row["samples"]["plain"][-1], row
assert rows["cpu"]["aim"] == 0.5 and rows["cpu"]["ckptfs"] > 0, rows["cpu"]
END

mkfifo "$TEST_TMP/lines"

# interrupt WORDS ROW: when the bench has said WORDS
interrupt() {
	"${bench[@]}" --only "$2" 2>"$TEST_TMP/lines" &
	while read -r line; do
		[[ $line != *"$1"* ]] || kill -INT $! || die "the bench has ended before"
	done <"$TEST_TMP/lines"
	wait $!
	assert_eq $? 130 "exit status after SIGINT"
	nothing_left
	! pgrep -f "^gluster.*$TEST_TMP/tmp" || die "a GlusterFS left by the bench"
}

interrupt "round 1" stat
case $table in
*"| 400 MB/s |"*) interrupt "DCP save over a link of 100 MB/s, blocked: round 1" net ;;
esac
