#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What newcomers type at the command: verbs that are called otherwise elsewhere, options in the wrong place, help of every
# kind. Each is understood, or answered with what to type.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
cd "$TEST_TMP" || die "cannot enter"

# wrong PHRASE ARGS...: exit status 2, and PHRASE on stderr.
wrong() {
	local phrase=$1
	shift
	run "$CKPTFS" "$@"
	assert_eq "$RC" 2 "exit status of ckptfs $*: $OUT"
	assert_contains "$OUT" "$phrase" "ckptfs $*"
}

# Verbs of other commands.
mount_ckptfs
echo data >"$MNT/x.pt"
expect_ok "$CKPTFS" wait "$MNT/x.pt"
expect_ok "$CKPTFS" list "$MNT"
assert_contains "$OUT" x.pt
expect_ok "$CKPTFS" stat "$MNT"
assert_contains "$OUT" "backing      $BACK"
expect_ok "$CKPTFS" unmount "$MNT"
[ -z "$(ckptfs_mounts)" ] || die "unmount has left the mount"
while read -r given meant; do
	wrong "there is no verb '$given'; did you mean '$meant'?" "$given"
done <<'END'
lst ls
mout mount
umont umount
latests latest
veryfy verify
statsu status
comit commit
fcsk fsck
END
wrong "there is no verb 'frobnicate'; \`ckptfs --help\` lists all verbs" frobnicate
wrong "the verb comes first: ckptfs VERB -o" -o ro mount a b
wrong "the verb comes first: ckptfs VERB --json; \`ckptfs --help\` lists them" --json status

# Help.
overview=$("$CKPTFS" --help)
for verb in doctor mount umount status ls latest why top verify wait commit drain fsck init version; do
	expect_ok "$CKPTFS" help "$verb"
	said=$OUT
	assert_contains "$said" "usage: ckptfs $verb"
	for how in "$verb --help" "$verb -h"; do
		# shellcheck disable=SC2086 # words
		expect_ok "$CKPTFS" $how
		assert_eq "$OUT" "$said" "ckptfs $how"
	done
	assert_contains "$overview" " $verb "
done
expect_ok "$CKPTFS" help unmount
assert_contains "$OUT" "usage: ckptfs umount"
assert_contains "$("$CKPTFS" help mount)" "host_cache_size"
wrong "there is no verb 'mont'; did you mean 'mount'?" help mont
assert_contains "$OUT" "$overview"
assert_contains "$overview" "Exit status: 0 yes or done, 1 no or failed"
expect_ok "$CKPTFS" --version
assert_eq "$(wc -w <<<"$OUT")" 2 "--version: $OUT"
expect_ok sh "$SRC/mount-scripts/mount.ckptfs" --help

# Options: of the mount behind -o, of a verb by their names.
mkdir -p a b
wrong "mount options go behind -o: -o host_cache_size=4G" mount --cache 4G a b
wrong "mount options go behind -o: -o host_cache_size=4G" mount --host_cache_size=4G a b
wrong "mount options go behind -o: -o allow_other" mount --allow_other a b
wrong "there is no option '--foregroun_d'; did you mean '--foreground'?" mount --foregroun_d a b
wrong "there is no option '-O'" mount -O ro a b
wrong "there is no option '--jason'; did you mean '--json'?" status --jason a
wrong "there is no option '--recursive'" ls --recursive a
wrong "--timeout needs a value" umount --timeout
wrong "--force takes no value" umount --force=1 a
wrong "give a backing directory and a mount point" mount a
wrong "give one of --adopt, --discard and --dry-run" fsck --adopt --discard a
expect_fail "$CKPTFS" mount a b --options ro,bogus # options may stand behind, too
assert_contains "$OUT" "unknown option 'bogus'"

# What is there: without a path, status and top tell of this host's mounts.
[ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ] || exit 0
only_own_mounts
for verb in status top; do
	expect_fail "$CKPTFS" "$verb"
	assert_contains "$OUT" "no ckptfs is mounted on this host. To mount one: ckptfs mount BACKING MOUNTPOINT"
done
mount_ckptfs
expect_ok "$CKPTFS" status
assert_contains "$OUT" "$MNT  $BACK  live, pid $(daemon_pid)"
expect_ok "$CKPTFS" top -n 1
umount_ckptfs
