#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The scripts that `ckptfs completion` prints let bash and zsh complete verbs, their options and mount options, as the
# command has them.

. "${SRC:?}/tests/cli/verbs.sh"

cd "$TEST_TMP" || die "cannot enter"
touch "a file.pt" other.pt
mkdir directory
"$CKPTFS" completion bash >bash.sh || die "no script"
[ -z "$(bash -n bash.sh 2>&1)" ] || die "no bash: $(bash -n bash.sh 2>&1)"

# words WORD...: what bash completes the last of them to, sorted, on one line.
words() {
	bash --norc -c '. ./bash.sh
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_ckptfs
		printf "%s\n" "${COMPREPLY[@]}" | sort | paste -sd" "' - "$@"
}

assert_eq "$(words ckptfs m)" mount
assert_eq "$(words ckptfs w)" "wait why"
assert_eq "$(words ckptfs --v)" "--version"
assert_eq "$(words ckptfs help um)" umount
assert_eq "$(words ckptfs nonsense --)" ""
# Every verb of the overview, with the options that it takes and no other.
for verb in $("$CKPTFS" --help | sed -n 's/^  [A-Z ][a-z ]\{6\}\([a-z]*\) .*/\1/p'); do
	assert_eq "$(words ckptfs "$verb")" "$verb"
	for option in $(words ckptfs "$verb" --); do
		[ "$option" != --help ] || continue
		run "$CKPTFS" "$verb" "$option=1" --help
		[[ $OUT != *"there is no option"* ]] || die "$verb has no $option: $OUT"
	done
	"$CKPTFS" "$verb" --help | grep -o '^  \(-., \)\?--[a-z-]*' | grep -o -e '--[a-z-]*' >documented
	while read -r option; do
		[[ " $(words ckptfs "$verb" --) " == *" $option "* ]] || die "$verb $option is not completed"
	done <documented
done
assert_eq "$(words ckptfs wait --ti)" --timeout
assert_eq "$(words ckptfs wait --timeout "")" ""
assert_eq "$(words ckptfs status oth)" other.pt
assert_eq "$(words ckptfs status a)" "a file.pt"
assert_eq "$(words ckptfs mount -o host)" "host_cache_size="
assert_eq "$(words ckptfs mount -o ro,noat)" "ro,noatime"
for key in $(option_keys); do
	[ "$key" = rules ] || [ -n "$(words ckptfs mount -o "$key")" ] || die "mount option $key is not completed"
done
run "$CKPTFS" completion fish
assert_eq "$RC" 2
assert_contains "$OUT" "give the shell: bash or zsh"
"$CKPTFS" completion zsh >_ckptfs || die "no script"
command -v zsh >/dev/null || skip "bash is fine; zsh is not here"
expect_ok zsh -n _ckptfs
cat >try.zsh <<'END'
autoload -Uz compinit && compinit -D -u -d "$PWD/.dump"
. ./_ckptfs_function
# compadd and _describe say what they are given.
_describe() { print -l -- ${(P)2} }
compadd() { print -r -- "compadd $*" }
_files() { print files }
compset() { : }
words=("$@") CURRENT=$# PREFIX=${@[-1]}
_ckptfs
END
sed '/^_ckptfs "\$@"$/d' _ckptfs >_ckptfs_function
assert_contains "$(zsh -f try.zsh ckptfs "")" "mount:mount the directory BACKING at MOUNTPOINT"
assert_contains "$(zsh -f try.zsh ckptfs wait --)" "--timeout"
assert_contains "$(zsh -f try.zsh ckptfs mount -o h)" "host_cache_size="
assert_eq "$(zsh -f try.zsh ckptfs status x)" files
