#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example for Kubernetes, run as a kubelet would, by its own commands: the daemon's container and a training pod are mount
# namespaces below that of the host, with the propagation that the example asks for. The pod finds the mount, also one that
# came later than itself; preStop saves what is closed and unmounts; after a crash the next container clears the rest.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to be a host in"
needs unshare nsenter
python3 -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"

# Prints a command of the example, with a NUL behind each word; or its config; or checks what else it says.
cat >"$TEST_TMP/read.py" <<'END'
import json, sys, yaml
path, key = sys.argv[1:]
with open(path, encoding="utf-8") as file:
	config, daemons, pod = yaml.safe_load_all(file)
assert [d["kind"] for d in (config, daemons, pod)] == ["ConfigMap", "DaemonSet", "Pod"]
spec = daemons["spec"]["template"]["spec"]
(container,), (train,) = spec["containers"], pod["spec"]["containers"]
if key == "config":
	print(config["data"]["ckptfs.json"])
elif key == "check":
	mounts = {m["name"]: m for m in container["volumeMounts"]}
	volumes = {v["name"]: v for v in spec["volumes"]}
	assert set(mounts) == set(volumes)
	assert spec["hostPID"] and container["securityContext"]["privileged"]
	assert mounts["mounts"]["mountPropagation"] == "Bidirectional"
	assert train["volumeMounts"][0]["mountPropagation"] == "HostToContainer"
	assert volumes["mounts"]["hostPath"]["path"] == pod["spec"]["volumes"][0]["hostPath"]["path"]
	assert daemons["spec"]["selector"]["matchLabels"].items() <= daemons["spec"]["template"]["metadata"]["labels"].items()
	gib = int(json.loads(config["data"]["ckptfs.json"])["host_cache_size"].rstrip("G"))
	limits = container["resources"]
	assert limits["limits"]["memory"] == limits["requests"]["memory"] == "%dGi" % (gib + 2)
	assert spec["terminationGracePeriodSeconds"] >= 600
else:
	hooks = container["lifecycle"]
	words = {"command": container["command"], "init": spec["initContainers"][0]["command"],
		"postStart": hooks["postStart"]["exec"]["command"], "preStop": hooks["preStop"]["exec"]["command"],
		"ready": container["readinessProbe"]["exec"]["command"], "train": train["command"]}[key]
	sys.stdout.write("".join(word + "\0" for word in words))
END
example=$SRC/mount-scripts/kubernetes.yaml
expect_ok python3 "$TEST_TMP/read.py" "$example" check

# A host whose mounts are shared, as systemd has them; the directories of the example are in it.
host=$TEST_TMP/host
mkdir "$host"
{ mount --bind "$host" "$host" && mount --make-shared "$host"; } || skip "cannot share mounts"
mkdir "$host/pfs" "$host/etc"
python3 "$TEST_TMP/read.py" "$example" config | sed 's/"64G"/"64M"/' >"$host/etc/ckptfs.json"
MNT=$host/lib/mnt
PATH=$(dirname "$CKPTFS"):$PATH

# words KEY: sets $WORDS to that command of the example.
words() {
	mapfile -d '' -t WORDS < <(python3 "$TEST_TMP/read.py" "$example" "$1")
	WORDS=("${WORDS[@]//\/var\/lib\/ckptfs/$host/lib}")
	WORDS=("${WORDS[@]//\/etc\/ckptfs/$host/etc}")
	WORDS=("${WORDS[@]//\/backing/$host/pfs}")
	WORDS=("${WORDS[@]//\/ckpt\/mnt/$MNT}")
	WORDS=("${WORDS[@]//exec python train.py --checkpoints/ls -d}")
}

# start: the container of the daemon, as Bidirectional has it; it has started when postStart has ended.
start() {
	words command
	unshare -m --propagation unchanged "${WORDS[@]}" 2>>"$TEST_TMP/log" &
	DAEMON=$!
	words postStart
	expect_ok nsenter -t "$DAEMON" -m "${WORDS[@]}"
	words ready
	expect_ok nsenter -t "$DAEMON" -m "${WORDS[@]}"
}

# train CMD...: in the training pod.
train() {
	run nsenter -t "$pod" -m "$@"
}

words init
expect_ok "${WORDS[@]}"
unshare -m --propagation slave tail -f /dev/null & # HostToContainer
pod=$!
is_slave() {
	grep -q " $host .* master:" "/proc/$pod/mountinfo"
}
wait_until 10 is_slave
words train
TRAIN=("${WORDS[@]}")
train "${TRAIN[@]}"
[ "$RC" != 0 ] || die "the pod goes on without a mount: $OUT"

start
train "${TRAIN[@]}"
assert_eq "$RC $OUT" "0 $MNT"
train sh -c 'echo saved >"$1/x.pt"' - "$MNT"
assert_eq "$RC" 0 "$OUT"
expect_ok "$CKPTFS" wait "$MNT/x.pt"

kill9_and_reaped "$(daemon_pid)" 10
start
train cat "$MNT/x.pt"
assert_eq "$RC $OUT" "0 saved"

train sh -c 'echo last >"$1/y.pt"' - "$MNT"
words preStop
expect_ok nsenter -t "$DAEMON" -m "${WORDS[@]}"
assert_eq "$(cat "$host/pfs/y.pt")" last
wait_until 10 _gone "$DAEMON"
! grep -qF " $MNT " /proc/self/mountinfo || die "still mounted on the host"
train "${TRAIN[@]}"
[ "$RC" != 0 ] || die "the pod goes on without a mount: $OUT"
