#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# cpu: 15
# Nodes of which nobody asks anything do nothing on the backing but renew their leases, each by one write and one sync; also when
# they have committed something before, together.

. "${SRC:?}/tests/nodes/nodes.bash"

needs strace
LEASE_S=2
node_ok 1 node=one
node_ok 2 node=two
# by RANK CMD: as a process of a job.
by() {
	RANK=$1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=job sh -c "$2"
}
by 0 "mkdir $(mnt 1)/step-1"
by 1 "echo 1 >$(mnt 2)/step-1/__1_0.distcp"
by 0 "cd $(mnt 1)/step-1 && echo 0 >__0_0.distcp && echo end >.metadata.tmp && mv .metadata.tmp .metadata"
for n in 1 2; do
	expect_ok "$CKPTFS" wait --timeout 60 "$(mnt $n)/step-1"
done

# All that it does, and the calls that it makes on the backing, renewal after renewal.
strace -f -y -o "$TEST_TMP/trace" -p "$(daemon_pid "$(mnt 1)")" &
disown
cat >judge.py <<'END'
import re, sys

back, renewals, calls = sys.argv[1], [], []
for line in open(sys.argv[2], errors="replace"):
	call = re.match(r"\d+ +(?:<\.\.\. )?(\w+)", line)
	if "<unfinished" in line or not call or back not in line:
		continue
	calls.append((call[1], [path[len(back):] for path in re.findall("<(%s[^>]*)>" % re.escape(back), line)]))
	if call[1] == "fsync":
		renewals.append(calls)
		calls = []
last = renewals[-4:]
assert len(last) == 4, len(last)
for calls in last:
	names = [name for name, _ in calls]
	print(names)
	assert len([n for n in names if re.match("p?writev?", n)]) == 1, names
	assert not [n for n in names if re.match("p?read|getdents", n)] and len(names) <= 16, names
	for _, paths in calls:
		assert all(re.fullmatch(r"|/\.ckptfs(/nodes(/\w{32})?)?", path) for path in paths), paths
END
wait_until 90 python3 judge.py "$BACK" "$TEST_TMP/trace"
