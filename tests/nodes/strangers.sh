#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount with other rules, or of another protocol, than a node that lives is refused by name; not after that has gone.
# timeout: 120

. "${SRC:?}/tests/nodes/nodes.bash"

host=$(uname -n)
node_ok 1
echo '{"rules": [{"name": "own", "match": ["save-*"], "done": [[{"close": "done"}, "after_all"]]}]}' >"$TEST_TMP/config.json"
node 2 "config=$TEST_TMP/config.json"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "the live node '$host' of host $host, which has $BACK mounted, goes by other rules"
assert_eq "$(leases)" 1
umount_ckptfs "$(mnt 1)"
wait_until 30 has_leases 0
node_ok 2 "config=$TEST_TMP/config.json"
assert_eq "$OUT" ""
umount_ckptfs "$(mnt 2)"
wait_until 30 has_leases 0

# One of the future: somebody renews its lease.
lease=$BACK/.ckptfs/nodes/0123456789abcdef0123456789abcdef
(
	i=0
	while i=$((i + 1)); do
		printf '{"protocol":99,"label":"tomorrow","host":"there","n":%s}' "$i" 1<>"$lease"
		sleep 0.2
	done
) &
renewing=$!
wait_until 30 test -s "$lease"
node 3
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "the live node 'tomorrow' of host there, which has $BACK mounted, agrees with others by protocol 99"
kill "$renewing"
wait "$renewing"
node_ok 3
assert_contains "$OUT" "node 'tomorrow' of host there"
wait_until 60 has_leases 1 # once the dead one has been so for long
umount_ckptfs "$(mnt 3)"
