#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --help of every verb prints its use and exits with 0; a wrong call prints it to stderr and exits with 2.

. "${SRC:?}/tests/cli/verbs.sh"

expect_ok "$CKPTFS" --help
overview=$OUT
assert_contains "$overview" "usage: ckptfs VERB"
assert_eq "$(awk 'length > 80' <<<"$overview")" "" "lines wider than a terminal"
[ "$(wc -l <<<"$overview")" -le 25 ] || die "more than a screen: $overview"
for verb in doctor mount umount status ls latest why top verify tensors wait commit drain fsck init version completion; do
	[ "$verb" = completion ] || grep -q "^  [A-Z ][a-z ]\{5\} $verb " <<<"$overview" || die "no $verb in $overview"
	for option in --help -h; do
		said=$("$CKPTFS" "$verb" "$option" 2>/dev/null) || die "$verb $option failed"
		assert_contains "${said%%$'\n'*}" "usage: ckptfs $verb "
	done
done
for same in -h help; do
	expect_ok "$CKPTFS" "$same"
	assert_eq "$OUT" "$overview" "ckptfs $same"
done
assert_contains "$("$CKPTFS" mount --help)" "config=FILE"

# wrong PHRASE ARGS...: exit status 2, nothing on stdout, the phrase on stderr.
wrong() {
	local phrase=$1
	shift
	"$CKPTFS" "$@" >"$TEST_TMP/stdout" 2>"$TEST_TMP/stderr"
	assert_eq $? 2 "exit status of ckptfs $*"
	assert_eq "$(cat "$TEST_TMP/stdout")" "" "stdout of ckptfs $*"
	assert_contains "$(cat "$TEST_TMP/stderr")" "$phrase"
}

wrong "usage: ckptfs VERB"
wrong "there is no verb 'munt'; did you mean 'mount'? \`ckptfs --help\` lists all verbs" munt
wrong "there is no verb ''" ""
wrong "give a backing directory and a mount point" mount
wrong "give a backing directory and a mount point" mount a
wrong "give a backing directory and a mount point" mount a b c
wrong "there is no option '-x'" mount a b -x ro
wrong "usage: ckptfs mount" mount -x a b
wrong "usage: ckptfs mount" mount -o
wrong "usage: ckptfs mount" mount --bogus a b
wrong "give one mount point" umount
wrong "give one mount point" umount a b
wrong "usage: ckptfs umount" umount --bogus a
wrong "usage: ckptfs umount" umount --timeout
wrong "give one directory" init
wrong "give one checkpoint" tensors
wrong "give one checkpoint" tensors a b
wrong "give one checkpoint, or a second to compare with" tensors --redundancy a b c
wrong "give one directory" init a b
wrong "give one path in a mount" status a b
wrong "usage: ckptfs status" status --bogus a
wrong "takes no argument but --json" version x
wrong "takes no argument but --json" version --json x
wrong "\`ckptfs status --help\` tells more" status a b
