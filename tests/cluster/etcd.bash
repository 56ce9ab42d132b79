# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests with a real etcd; source it after lib.sh. Its ports, on loopback, and directory are the test's own.

ETCD_URL=  # of the one that start_etcd has started
ETCD_PID=
_etcd_peer=

# start_etcd [OPTION...]: an etcd that answers, with what it had before if there was one.
start_etcd() {
	needs etcd
	if [ -z "$ETCD_URL" ]; then
		local ports
		ports=$(python3 "$SRC/tests/cluster/etcd.py" ports 2) || die "no free ports"
		ETCD_URL=http://127.0.0.1:${ports%% *}
		_etcd_peer=http://127.0.0.1:${ports##* }
	fi
	mkdir -p "$TEST_TMP/.etcd"
	GOMAXPROCS=1 etcd --name only --data-dir "$TEST_TMP/.etcd/data" --listen-client-urls "$ETCD_URL" \
		--advertise-client-urls "$ETCD_URL" --listen-peer-urls "$_etcd_peer" \
		--initial-advertise-peer-urls "$_etcd_peer" --initial-cluster "only=$_etcd_peer" "$@" \
		>>"$TEST_TMP/.etcd/log" 2>&1 &
	ETCD_PID=$!
	disown
	wait_until 60 etcd_is healthy
}

stop_etcd() {
	kill -9 "$ETCD_PID"
	wait_until 30 _gone "$ETCD_PID"
}

# etcd_is healthy
etcd_is() {
	python3 "$SRC/tests/cluster/etcd.py" "$1" "$ETCD_URL" >/dev/null 2>&1
}

# etcd_keys: what is below /ckptfs/, without the uuid, one a line.
etcd_keys() {
	python3 "$SRC/tests/cluster/etcd.py" keys "$ETCD_URL"
}

# etcd_put KEY TEXT
etcd_put() {
	python3 "$SRC/tests/cluster/etcd.py" put "$ETCD_URL" "$1" "$2" || die "cannot put $1"
}

# uuid_of BACKING
uuid_of() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["uuid"])' "$1/.ckptfs/version.json"
}
