#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# While etcd is away nothing is committed, nothing is lost, and it can be seen; when it is there again all goes on. What
# was decided in it before a daemon was killed is done by fsck, and by the next mount.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"
. "$SRC/tests/cli/verbs.sh"
. "$SRC/tests/cluster/etcd.bash"

needs_fuse
start_etcd
# An outage longer than what the storage is given is waited for.
how=coord=etcd:$ETCD_URL,quiet_s=1,io_retry_s=1
mount_ckptfs -o "$how"
stop_etcd
program <<'END'
from checkpoints import *

content = begin(mnt + "/step-1")
end(mnt + "/step-1", content)
END
status_is_outage() {
	[ "$(status_of 'x["coord"]["state"]')" = outage ]
}
wait_until 60 status_is_outage
assert_contains "$(status_of 'x["coord"]["why"]')" "etcd at $ETCD_URL: Connection refused"
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "etcd, outage: etcd at $ETCD_URL: Connection refused"
outage_is_long() {
	[ "$(status_of 'x["coord"].get("outage_s", 0) > 3')" = True ]
}
wait_until 60 outage_is_long
[ ! -e "$BACK/step-1" ] || die "committed without etcd"
start_etcd
expect_ok timeout 60 "$CKPTFS" wait "$MNT/step-1"
expect_ok "$CKPTFS" verify "$BACK/step-1"
umount_ckptfs

# decided NAME HOW...: NAME is decided, but its daemon is killed before it has its name; HOW does the rest.
decided() {
	local name=$1 staging
	shift
	mount_ckptfs -o "$how"
	stop_etcd
	NAME=$name program <<'END'
from checkpoints import *

end(mnt + "/" + os.environ["NAME"], begin(mnt + "/" + os.environ["NAME"]))
END
	staged() {
		ls "$BACK"/.ckptfs-*/.ckptfs-commit.json
	}
	wait_until 60 staged
	kill9_and_reaped "$(daemon_pid)" 60 # what it had locked is free
	expect_ok "$CKPTFS" umount "$MNT"
	[ ! -e "$BACK/$name" ] || die "$name is committed without etcd"
	staging=$(basename "$BACK"/.ckptfs-????????????????????????????????)
	start_etcd
	etcd_put "/ckptfs/$(uuid_of "$BACK")/txn/$(id -u)/${staging#.ckptfs-}.decision" \
		"{\"decision\":\"commit\",\"replaces\":null,\"unit\":\"$name\"}"
	"$@"
	expect_ok "$CKPTFS" verify "$BACK/$name"
	assert_eq "$(etcd_keys | grep txn/)" "" "what is left in etcd"
}

by_fsck() {
	expect_ok "$CKPTFS" fsck -o "coord=etcd:$ETCD_URL" "$BACK"
	assert_contains "$OUT" redone
}

by_mount() {
	mount_ckptfs -o "$how"
	umount_ckptfs
}

decided step-2 by_fsck
decided step-3 by_mount
