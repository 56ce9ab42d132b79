#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demo sees a byte that differs, a file that is missing, a mode that is not kept, and a mount that fails.
#
# timeout: 400
# heavy: check-demo

. "${SRC:?}/tests/lib.sh"

needs_fuse
mkdir "$TEST_TMP/tmp"
export REAL=$CKPTFS SPOIL BACKING_FILE=$TEST_TMP/backing

# A command that does what SPOIL says to the backing after it was unmounted.
cat >"$TEST_TMP/ckptfs" <<'END'
#!/usr/bin/env bash
"$REAL" "$@" || exit
case $1 in
mount) echo "${@: -2:1}" >"$BACKING_FILE" ;;
umount) cd "$(<"$BACKING_FILE")/tools" && eval "$SPOIL" ;;
esac
END
chmod +x "$TEST_TMP/ckptfs"

# spoiled SPOIL VERDICT
spoiled() {
	SPOIL=$1
	expect_fail env TMPDIR="$TEST_TMP/tmp" CKPTFS="$TEST_TMP/ckptfs" DEMO_MIB=2 \
		DEMO_WITHOUT="torch safetensors h5py numpy saves beside" bash "$SRC/tests/demo/demo.sh"
	assert_eq "$RC" 1
	assert_contains "$OUT" "$2"
	assert_eq "$(ls -A "$TEST_TMP/tmp")" "" "files left by the demo"
}

# shellcheck disable=SC2016 # for the script above
{
	spoiled 'truncate -s 1000 dd.bin; head -c 2M /dev/zero >>dd.bin; truncate -s 2M dd.bin' \
		"DIFFERS at byte 100"    # 1001, or soon after if the random byte was 0
	spoiled 'truncate -s 1000 dd.bin' "DIFFERS: EOF on backing/dd.bin after byte 1000"
	spoiled 'rm log.hard' "DIFFERS: "
	spoiled 'chmod 600 log' "DIFFERS: plain has: f 640 2 log"
	spoiled 'mkdir extra' "DIFFERS: "
}
assert_contains "$OUT" "1 of 1 programs differ or failed on the mount"

# spoiled_beside VERDICT: nothing of the programs, but of the trainings on the mount.
spoiled_beside() {
	expect_fail env TMPDIR="$TEST_TMP/tmp" CKPTFS="$TEST_TMP/ckptfs" DEMO_MIB=2 DEMO_SAVE_MIB=32 TRAINER="$TEST_TMP/trainer" \
		DEMO_WITHOUT="torch safetensors h5py numpy saves" bash "$SRC/tests/demo/demo.sh"
	assert_contains "$OUT" "$1"
	assert_contains "$OUT" "demo: 2 of 2 trainings on the mount did not leave what was promised"
}

ln -s "$BUILD/tests/trainer/trainer" "$TEST_TMP/trainer"
printf '#!/bin/sh\n[ "$1" != latest ] || set latest --any\nexec "$REAL" "$@"\n' >"$TEST_TMP/ckptfs"
spoiled_beside "NOT the same tensors"
# one that begins anew, with other weights, where it finds a checkpoint
printf '#!/bin/sh\nfor dir; do :; done\n[ ! -e "$dir/step-2" ] || set -- --plain --steps 6 --elements 7 "$dir"\nexec "%s" "$@"\n' \
	"$BUILD/tests/trainer/trainer" >"$TEST_TMP/other"
mv "$TEST_TMP/other" "$TEST_TMP/trainer"
chmod +x "$TEST_TMP/trainer"
printf '#!/bin/sh\nexec "$REAL" "$@"\n' >"$TEST_TMP/ckptfs"
spoiled_beside "cannot go on: "

printf '#!/bin/sh\necho "no mount today" >&2\nexit 1\n' >"$TEST_TMP/ckptfs"
spoiled '' "no mount today"
