# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# While a training saves to the mount with torch.distributed.checkpoint, a stock program loads the newest checkpoint as
# safetensors, from its view. demo.sh sources this.
# shellcheck disable=SC2154,SC2034 # demo.sh, venv.bash and saves.bash have, and use, the rest

view_told='not reached' view_ran='' view_ok=''

run_view() {
	local name before
	for name in torch safetensors; do
		[ -z "${left_out[$name]-}" ] || left_out[view]=${left_out[view]-"$name is left out"}
	done
	[ -z "${left_out[view]-}" ] || return 0
	view_ran=1
	rm -rf "$work"/backing/*
	start_mount "${DEMO_OPTS-}"
	say "a training saves with DCP; beside it safetensors loads the newest checkpoint"
	saver=new    # what is ended if the demo is interrupted
	setsid "$venv/bin/python" "$here/train_dcp.py" "$mnt/run" >"$work/log/view-train" 2>&1 3>&- &
	saver=$!
	until_true "${DEMO_TIMEOUT:-600}" "its second checkpoint" has_saved 10
	before=$(last_saved)
	if run safetensors env CKPTFS="$CKPTFS" timeout -k 5 "${DEMO_TIMEOUT:-600}" "$venv/bin/python" "$here/load_view.py" \
		"$mnt/run" >"$work/log/view" 2>&1; then
		until_true "${DEMO_TIMEOUT:-600}" "the training has gone on" has_saved $((before + 5))
		view_told="$(tail -n 1 "$work/log/view"), from its view; DCP loads the same"
		not_running "$saver" || view_ok=1
	else
		view_told="FAILED: $(reason_in "$work/log/view")"
		tail -n 20 "$work/log/view" | sed 's/^/demo:     /'
	fi
	kill -TERM "$saver" 2>/dev/null
	wait "$saver" 2>/dev/null
	saver=''
	stop_mount
}

last_saved() {
	sed -n 's/^saved //p' "$work/log/view-train" | tail -n 1
}

# has_saved STEP: or ended.
has_saved() {
	local last
	last=$(last_saved)
	[ "${last:-0}" -ge "$1" ] || not_running "$saver"
}

print_view() {
	if [ -z "$view_ran" ]; then
		say "a view beside a training: left out: ${left_out[view]}"
		return
	fi
	echo "Beside a training that saves with DCP, safetensors $view_told"
	echo
}
