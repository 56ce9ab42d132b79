#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 1800
# needs: root
# The README's own commands, typed on a bare Debian 12 (typed.py): at the end there is a checkpoint that was captured lazily and is
# committed. Prints after how many minutes. Given are git, make, and the source tree as the working directory. pip takes the
# torch that its configuration leads to: PIP_CONSTRAINT=FILE in the environment names another, such as one without CUDA.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/dist/roots.bash"

bare_root bookworm
may_download
install_in_root git make
mkdir "$ROOT/root/ckptfs"
git -C "$SRC" ls-files -co --exclude-standard | (cd "$SRC" && while read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done |
	tar -c -T -) | tar -x -C "$ROOT/root/ckptfs"

# Behind the block of Python: what it saved was captured, not written, and `wait` says that it is committed.
cat >"$ROOT/root/typed" <<'END'
after_python() {
	local mnt newest captured first
	mnt=$(sed -n 's/^[^-]* \(\/[^ ]*\) [^-]* - fuse.ckptfs .*/\1/p' /proc/self/mountinfo | head -n 1)
	newest=$(find "$mnt" -name '*.pt' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
	ckptfs wait "$newest"
	captured=$(ckptfs status --json "$mnt" | grep -o '"captured_bytes": [0-9]*' | sort -k 2 -n | tail -n 1 | cut -d' ' -f2)
	[ "$captured" -gt 1000000 ] || { echo "nothing was captured lazily: $captured bytes"; exit 1; }
	echo "$newest: committed, $captured bytes were captured lazily"
	first=$(find "$mnt" -name '*.pt' -printf '%C@\n' | sort -n | head -n 1) # renamed when it was committed
	first=$((${first%.*} - $(date +%s) + SECONDS))
	echo "to the first committed lazy checkpoint: $((first / 60)) min $((first % 60)) s"
}
END
python3 "$SRC/tests/dist/typed.py" "${CKPTFS_TEST_README:-$SRC/README.md}" >"$TEST_TMP/script" || die "$(cat "$TEST_TMP/script")"
cat "$TEST_TMP/script" >>"$ROOT/root/typed"
expect_ok in_root bash -c 'cd ckptfs && exec bash ../typed'
assert_contains "$OUT" "to the first committed lazy checkpoint: "
grep -e '^+ after' -e '^block of' -e '^to the first' -e 'committed, ' <<<"$OUT"
minutes=$(sed -n 's/^to the first committed lazy checkpoint: \([0-9]*\) min.*/\1/p' <<<"$OUT" | head -n 1)
[ "$minutes" -lt 20 ] || die "it took $minutes minutes"
