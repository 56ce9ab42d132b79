#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A node of which nobody asks anything asks etcd for nothing but the renewals of its lease: to keep it, and to put its text.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/cluster/etcd.bash"

needs_fuse
start_etcd
mount_ckptfs -o "coord=etcd:$ETCD_URL,lease_s=3"

# What etcd has served between two looks at it, which are three renewals apart or more.
cat >judge.py <<'END'
import re, sys, time, urllib.request

def served():
	with urllib.request.urlopen(sys.argv[1] + "/metrics", timeout=10) as page:
		text = page.read().decode()
	counts = re.findall(r'^grpc_server_started_total\{grpc_method="(\w+)".*?\} (\d+)', text, re.M)
	return {method: int(float(count)) for method, count in counts}

before = served()
while served()["Put"] < before["Put"] + 3:
	time.sleep(0.05)
after = served()
calls = {method: after[method] - before.get(method, 0) for method in after if after[method] > before.get(method, 0)}
print(calls)
assert set(calls) <= {"Put", "LeaseKeepAlive"} and abs(calls["Put"] - calls["LeaseKeepAlive"]) <= 1, calls
END
wait_until 60 python3 judge.py "$ETCD_URL"
umount_ckptfs
