#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a config file that is missing, is not JSON (and says where), or has a key or value it must not have.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir "$BACK" "$TEST_TMP/mnt"
file=$TEST_TMP/config.json

# bad PHRASE: the file that comes from stdin is refused.
bad() {
	cat >"$file"
	refused 1 "$1" -o "config=$file" "$BACK" "$TEST_TMP/mnt"
}

refused 1 "cannot read the config file $TEST_TMP/none: No such file or directory. Nothing was mounted" \
	-o "config=$TEST_TMP/none" "$BACK" "$TEST_TMP/mnt"
assert_contains "$OUT" "correct the path in config=FILE"
refused 1 "cannot read the config file : " -o config= "$BACK" "$TEST_TMP/mnt"
refused 1 "$BACK" -o "config=$BACK" "$BACK" "$TEST_TMP/mnt"

bad "$file:3: " <<<$'{\n"node": "n1",\nnode: 2\n}'
assert_contains "$OUT" "the config file is one JSON object of option names and values"
bad "$file:2: " <<<$'{"node": "n1",\n}'
bad "$file:2: " <<<""
bad "$file:1: not a JSON object" <<<'["node", "n1"]'
bad "$file:3: duplicate object key" <<<$'{\n"node": "n1",\n"node": "n2"}'
bad "$file:" <<<'{"node": "n1"} and more'
bad "$file:1: " < <(printf '\1\377\0garbage')

bad "$file: unknown key 'nodes'; did you mean 'node'? Nothing was mounted" <<<'{"nodes": "n1"}'
bad "unknown key 'config'" <<<'{"config": "other.json"}'
bad "$file: key node is not valid: expected a text" <<<'{"node": true}'
bad "key quiet_s is not valid: expected whole seconds" <<<'{"quiet_s": -1}'
bad "key quiet_s is not valid: expected whole seconds" <<<'{"quiet_s": 1.5}'
bad "key quiet_s is not valid: expected whole seconds" <<<'{"quiet_s": null}'
bad "key quiet_s is not valid: expected whole seconds" <<<'{"quiet_s": true}'
bad "key pin_host_cache is not valid: expected true or false" <<<'{"pin_host_cache": 1}'
bad "key rules is not valid: expected a JSON list" <<<'{"rules": {"a": 1}}'
bad "key fsync is not valid: expected barrier|durable|barrier-all" <<<'{"fsync": ["durable"]}'
bad "key log_level is not valid" <<<'{"node": "n1", "log_level": "loud"}'
