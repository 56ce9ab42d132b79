#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every key of status.json and every metric that a mount gives stands in ckptfs-status(5), and so do the keys of
# failures.json and of what the verbs print. Those of a commit file stand in ckptfs-format(5).

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

PAGE=$SRC/fs/ckptfs-status.5

# keys FILE: every key below the top of a JSON value, as the page writes it: cache.size, pending[].path
cat >"$TEST_TMP/keys.py" <<'END'
import json, sys
OPAQUE = {"features", "shared", "stats"}  # the page says in words what they hold
def walk(value, path):
	if isinstance(value, dict):
		for key, inner in value.items():
			name = f"{path}.{key}" if path else key
			if key in OPAQUE or not isinstance(inner, dict):
				print(name)
			if key not in OPAQUE:
				walk(inner, name)
	elif isinstance(value, list):
		for inner in value:
			walk(inner, path + "[]" if path else "")
walk(json.load(sys.stdin), "")
END

# documented WORD...: each is an item or a bold word of the page.
documented() {
	local word
	for word; do
		grep -qE "^\.It Va ([^ ]+ , )*$(printf '%s' "$word" | sed 's/[].[]/\\&/g')( |$)" "$PAGE" ||
			grep -qE "^\.Cm (.* )?$word( |$)" "$PAGE" || die "${PAGE##*/} does not tell of $word"
	done
}

keys() {
	python3 "$TEST_TMP/keys.py" | sort -u
}

needs_fuse
mount_ckptfs -o "host_cache_size=16M,commit_timeout_s=3600"

# Something of each kind: a directory that is open, a file that is open, a session, a failure, a removal that waits.
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 program <<'END'
import os, signal, shutil, subprocess, sys
import ckptfs
mnt = os.environ["MNT"]
def unit(name):
	os.makedirs(f"{mnt}/run/{name}")
	with open(f"{mnt}/run/{name}/__0_0.distcp", "wb") as file:
		file.write(b"x" * 1000)
def commit(name):
	subprocess.run([os.environ["CKPTFS"], "commit", f"{mnt}/run/{name}"], check=True)
	subprocess.run([os.environ["CKPTFS"], "wait", f"{mnt}/run/{name}"], check=True)
unit("step-1")
commit("step-1")
child = os.fork()
if not child:
	file = open(f"{mnt}/killed.pt", "wb")
	file.write(b"x")
	os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
unit("step-2")
shutil.rmtree(f"{mnt}/run/step-1")
kept = open(f"{mnt}/kept.pt", "wb")
kept.write(b"x")
session = ckptfs.Session(mnt)
def status():
	with open(f"{mnt}/.ckptfs/status.json") as file:
		return file.read()
with open("status.json", "w") as file:
	file.write(status())
kept.close()
END
cat "$MNT/.ckptfs/metrics" >metrics
cat "$MNT/.ckptfs/failures.json" >failures.json
cat "$BACK/run/step-1/.ckptfs-commit.json" >commit.json

for part in pending removals sessions captures cache flush coord requests; do
	grep -q "\"$part\"" status.json || die "status.json has no $part"
done
grep -q '"rule"' status.json || die "no directory is being saved"
grep -q '"handles"' status.json || die "no file is being saved"
mapfile -t found < <(keys <status.json)
[ "${#found[@]}" -ge 80 ] || die "only ${#found[@]} keys in status.json: a removal or a session is missing"
documented "${found[@]}"
mapfile -t found < <(sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' metrics)
[ "${#found[@]}" -ge 30 ] || die "only ${#found[@]} metrics"
documented "${found[@]}"
# The type that the page tells is that of the metric.
while read -r _ _ name type; do
	grep -A1 -x "\.It Va $name" "$PAGE" | grep -q "^$type, " || die "ckptfs-status(5) does not call $name a $type"
done < <(grep '^# TYPE' metrics)
for file in failures commit; do
	mapfile -t found < <(keys <$file.json | sed 's/^\[\]\.//')
	[ "${#found[@]}" -gt 5 ] || die "$file.json is too small"
	page=$PAGE
	[ $file = failures ] || page=$SRC/engine/format/ckptfs-format.5
	PAGE=$page documented "${found[@]}"
done

# What verbs print.
for verb in "ls $MNT" "latest $MNT" "verify $MNT" "why $MNT/kept.pt" "drain --timeout 0 $MNT" version; do
	# shellcheck disable=SC2086 # words
	"$CKPTFS" ${verb%% *} --json ${verb#"${verb%% *}"} >verb.json
	mapfile -t found < <(keys <verb.json | sed 's/.*[].]//')
	[ "${#found[@]}" -gt 0 ] || die "$verb prints nothing"
	for key in "${found[@]}"; do
		grep -qE "(^|[ ./\[])$key( |,|$)" "$PAGE" || die "ckptfs-status(5) does not tell of $key, which $verb prints"
	done
done
