# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Several daemons over one backing, $BACK: node N is mounted at $TEST_TMP/mnt-N, with a lease of $LEASE_S seconds.

. "${SRC:?}/tests/lib.sh"

needs_fuse
BACK=$TEST_TMP/back LEASE_S=${LEASE_S:-3}
mkdir "$BACK"

# mnt N: its mount point.
mnt() {
	printf '%s/mnt-%s' "$TEST_TMP" "$1"
}

# node N [OPTS]: mount it; sets $OUT and $RC, never fails.
node() {
	mkdir -p "$(mnt "$1")"
	run "$CKPTFS" mount -o "host_cache_size=64M,lease_s=$LEASE_S${2:+,$2}" "$BACK" "$(mnt "$1")"
}

# node_ok N [OPTS]
node_ok() {
	node "$@"
	[ "$RC" = 0 ] || die "node $1: $OUT"
}

# coord N EXPR: of status.json's `coord` there, x.
coord() {
	"$CKPTFS" status --json "$(mnt "$1")" | "${PY[@]}" -c "import json, sys; x = json.load(sys.stdin)['coord']; print($2)"
}

# sees N LABEL STATE: does N see a node of that label, and so?
sees() {
	[ "$(coord "$1" "any(o['label'] == '$2' and o['state'] == '$3' for o in x['others'])")" = True ]
}

# leases: how many there are.
leases() {
	find "$BACK/.ckptfs/nodes" -type f | wc -l
}

# has_leases N
has_leases() {
	[ "$(leases)" = "$1" ]
}

# on_another_host HOST CMD... &: with that host name, a boot of its own and mounts that are not seen here, in this very
# process; needs root.
on_another_host() {
	local boot=$TEST_TMP/boot-$1
	[ -e "$boot" ] || cat /proc/sys/kernel/random/uuid >"$boot"
	# shellcheck disable=SC2016 # for the inner shell
	exec unshare --uts --mount --propagation private sh -c 'hostname "$1" &&
		mount --bind "$2" /proc/sys/kernel/random/boot_id && shift 2 && exec "$@"' sh "$1" "$boot" "${@:2}"
}
