# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The second part of the demo (demo.sh sources this): for how long a save blocks the program, and
# what is left under a name when the daemon or the program is killed in the middle of a save over
# an existing file. Nothing hangs on timing: the program stops in the middle and says so, and a
# flush is slowed down so that its middle is long.
# shellcheck disable=SC2154,SC2034 # demo.sh and venv.bash have, and use, the rest

declare -A save_label=(
	[blocked]='save'    # of how much, and by what, is found out later
	[daemon]='kill -9 ckptfs, half written'
	[flush]='kill -9 ckptfs, being flushed'
	[program]='kill -9 the program, half written'
	[again]='saved again, nothing killed'
	[units]='kill -9 ckptfs in step-2 of many files'
)
saves=(blocked daemon flush program again units)
save_mib=${DEMO_SAVE_MIB:-512}
save_rounds=3
saver='' slow_daemon=''

# --- asking the daemon --------------------------------------------------------------

# The first number of that name in the daemon's status.
status_number() {
	"$CKPTFS" status --json "$mnt" 2>/dev/null |
		sed -n 's/^ *"'"$1"'": \([0-9][0-9]*\),\{0,1\}$/\1/p' | head -n 1
}

cache_is_there() {
	[ "$(status_number faulted)" = "$(status_number size)" ]
}

flush_has_begun() {
	[ "$(status_number bytes)" -gt 0 ] 2>/dev/null
}

# until_true SECONDS WHAT COMMAND...
until_true() {
	local limit=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		[ "$SECONDS" -lt "$limit" ] || die "not after $((limit - SECONDS)) s: $what"
		sleep 0.05
	done
}

# --- mounts -------------------------------------------------------------------------

# mount_for_saves [OPTION]: with a cache that holds a save, all of it in memory.
mount_for_saves() {
	local options=${DEMO_OPTS-}
	case $options in
	*host_cache_size*) ;;
	*) options=host_cache_size=$((save_mib * 5 / 4 + 64))M${options:+,$options} ;;
	esac
	start_mount "$options${1:+,$1}"
	until_true 120 "the cache is in memory" cache_is_there
}

# kill -9, and everything that held on to it has noticed.
kill_daemon() {
	local pid
	pid=$(status_number pid)
	[ -n "$pid" ] || die "cannot tell the pid of the daemon"
	kill -KILL "$pid"
	until_true 30 "the daemon is gone" not_running "$pid"
	slow_daemon=''
	clear_dead_mount
}

not_running() {
	local state
	state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 0
	[ "${state%% *}" = Z ]
}

clear_dead_mount() {
	run umount timeout -k 5 60 "$CKPTFS" umount "$mnt" >"$work/log/umount" 2>&1 && ! mounted && return
	cat "$work/log/umount" >&2
	die "cannot clear the mount of a killed daemon"
}

# --- the program --------------------------------------------------------------------

choose_saver() {
	saver_python=${PYTHON:-python3}
	if [ -z "${left_out[torch]-}" ] && [ -x "$venv/bin/python" ]; then
		saver_python=$venv/bin/python
	else
		export DEMO_WRITER=plain
	fi
	if ! python_works "$saver_python"; then
		left_out[saves]="no Python 3.8 or later ($saver_python)"
		return 1
	fi
	case $("$saver_python" "$here/save.py" 2>/dev/null) in
	torch*) save_label[blocked]="torch.save of $save_mib MiB" ;;
	plain) save_label[blocked]="plain writes of $save_mib MiB" ;;
	*)
		left_out[saves]="$here/save.py does not run"
		return 1
		;;
	esac
}

# Half as large until it fits: 4 times into memory, 8 times onto the disk.
choose_save_size() {
	local memory disk
	memory=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
	disk=$(df --output=avail -B1M "$work" | tail -n 1)
	while [ "$save_mib" -gt 32 ] && { [ $((save_mib * 4)) -gt "$memory" ] ||
		[ $((save_mib * 8)) -gt "$disk" ]; }; do
		save_mib=$((save_mib / 2))
	done
	save_mib=$((save_mib / 16 * 16))
}

# start_saver: a save over the existing file that stops in the middle.
start_saver() {
	rm -f "$work/half" "$work/go"
	mkfifo "$work/half" "$work/go"
	exec 4<>"$work/half" 5<>"$work/go"
	saver=new
	setsid "$saver_python" "$here/save.py" hold "$mnt/saves/x.pt" "$save_mib" 2 \
		"$work/half" "$work/go" >"$work/log/saver" 2>&1 3>&- 4>&- 5>&- &
	saver=$!
	read -r -t "${DEMO_TIMEOUT:-600}" -u 4 ||
		die "the saving program does not come to the middle: $(tail -n 1 "$work/log/saver")"
	say "  half of it is written"
}

# It goes on, and ends; its exit status.
finish_saver() {
	local rc
	echo go >&5
	wait "$saver"
	rc=$?
	end_saver
	return $rc
}

end_saver() {
	saver=''
	exec 4>&- 5>&-
}

# What the system said to it.
error_of_saver() {
	grep -oE '\[Errno [0-9]+\] [^:]*' "$work/log/saver" | tail -n 1 | sed 's/^[^]]*\] //'
}

# --- what is there ------------------------------------------------------------------

same_bytes() {
	cmp -s "$1" "$2"
}

# Is verify there, and does this backing keep what it needs?
can_verify() {
	"$CKPTFS" verify "$work/backing/saves/x.pt" >"$work/log/verify" 2>&1
}

# judge ROW FILE WORD: what has the name x.pt, in the mount and on the backing, against FILE.
judge() {
	local row=$1 where answer
	bytes[$row]=$(stat -c %s "$2")
	for where in "$mnt" "$work/backing"; do
		if ! answer=$(LC_ALL=C cmp "$2" "$where/saves/x.pt" 2>&1); then
			answer=${answer//$work\//}
			verdict[$row]="NOT the $3 file: ${answer#cmp: }"
			return
		fi
	done
	verdict[$row]="the $3 file, whole"
	[ -n "$verify_works" ] || return
	if "$CKPTFS" verify "$mnt/saves/x.pt" >"$work/log/verify" 2>&1; then
		verdict[$row]+=", verified"
	else
		verdict[$row]="NOT verified: $(tail -n 1 "$work/log/verify")"
	fi
}

ratio() {
	awk "BEGIN { printf \"%.2f\", $1 / ($2 + 0.0005) }"
}

# --- the rows -----------------------------------------------------------------------

measure_blocked() {
	local log=$work/log/blocked
	say "${save_label[blocked]}: in the plain directory and in the mount, by turns"
	# shellcheck disable=SC2016 # the inner shell expands
	if ! run "${save_label[blocked]}" timeout -k 5 "${DEMO_TIMEOUT:-600}" \
		"$saver_python" "$here/save.py" compare "$work/plain/saves" "$mnt/saves" "$save_mib" 1 \
		"$save_rounds" bash -c 'sync -f "$2"
			until ! "$0" status --json "$1" | grep -q "\"pending\": \[$"; do sleep 0.05; done' \
		"$CKPTFS" "$mnt" >"$log" 2>&1; then
		verdict[blocked]="FAILED: $(reason_in "$log")"
		tail -n 20 "$log" | sed 's/^/demo:     /'
		return 1
	fi
	plain_s[blocked]=$(sed -n 's/^plain //p' "$log")
	mount_s[blocked]=$(sed -n 's/^mount //p' "$log")
	bytes[blocked]=$(stat -c %s "$work/plain/saves/x.pt")
	verdict[blocked]=$(compare "$work/plain/saves" "$work/backing/saves")
	[ "${verdict[blocked]}" = identical ] || return 1
	verdict[blocked]="identical; $(ratio "${mount_s[blocked]}" "${plain_s[blocked]}") of the time,"
	verdict[blocked]+=" $(ratio "${mount_s[blocked]}" "$(sed -n 's/^fsync //p' "$log")")"
	verdict[blocked]+=" of that with an fsync in the plain directory"
	can_verify && verify_works=1
	return 0
}

kill_daemon_half_written() {
	say "a save over that file; the daemon is killed in the middle"
	start_saver
	kill_daemon
	finish_saver && die "the saving program did not notice that the daemon was killed"
	mount_for_saves
	judge daemon "$work/plain/saves/x.pt" old
	verdict[daemon]+="; the program got: $(error_of_saver)"
}

kill_daemon_half_flushed() {
	local seconds=$((20 + 10 * ${mount_s[blocked]%.*}))    # so that it lasts beyond the close
	say "the same, killed after the close, while the file is being flushed"
	stop_mount
	mount_for_saves "flush_bw=$((save_mib * 1024 / seconds))K"
	slow_daemon=$(status_number pid)
	run "${save_label[blocked]}" timeout -k 5 "${DEMO_TIMEOUT:-600}" "$saver_python" \
		"$here/save.py" once "$mnt/saves/x.pt" "$save_mib" 2 >"$work/log/saver" 2>&1 ||
		die "cannot save: $(reason_in "$work/log/saver")"
	until_true 60 "some of it is on the backing" flush_has_begun
	say "  closed after $(sed -n 's/^blocked //p' "$work/log/saver") s; some of it is flushed"
	kill_daemon
	mount_for_saves
	judge flush "$work/plain/saves/x.pt" old
}

kill_program() {
	say "a save over that file; the program is killed in the middle"
	start_saver
	kill -KILL "$saver"
	wait "$saver" 2>/dev/null
	end_saver
	until_true 30 "the name shows the old file again" \
		same_bytes "$mnt/saves/x.pt" "$work/plain/saves/x.pt"
	judge program "$work/plain/saves/x.pt" old
}

save_again() {
	say "a save over that file that comes to its end"
	run "${save_label[blocked]}" timeout -k 5 "${DEMO_TIMEOUT:-600}" "$saver_python" \
		"$here/save.py" once "$work/plain/saves/x.pt" "$save_mib" 2 >"$work/log/saver" 2>&1 &&
		run "${save_label[blocked]}" timeout -k 5 "${DEMO_TIMEOUT:-600}" "$saver_python" \
			"$here/save.py" once "$mnt/saves/x.pt" "$save_mib" 2 >"$work/log/saver" 2>&1 ||
		die "cannot save: $(reason_in "$work/log/saver")"
	until_true 120 "it is published" \
		same_bytes "$work/plain/saves/x.pt" "$work/backing/saves/x.pt"
	judge again "$work/plain/saves/x.pt" new
}

# shards STEP NUMBER: that many files of a checkpoint, one for each rank.
shards() {
	local rank mib=$((save_mib / 16))
	mkdir -p "$mnt/run/$1"
	for ((rank = 0; rank < $2; rank++)); do
		dd if="$work/plain/saves/x.pt" of="$mnt/run/$1/__${rank}_0.distcp" bs=1M \
			skip=$((rank * mib)) count="$mib" status=none || die "cannot save $1"
	done
}

commit_units() {
	local there
	say "a checkpoint of many files: run/step-1, of 4 ranks"
	bytes[units]=$((save_mib / 16 * 4 * 1048576))
	shards step-1 4
	[ ! -e "$work/backing/run/step-1" ] || die "step-1 is on the backing before its end"
	echo end >"$mnt/run/step-1/.metadata.tmp"
	mv "$mnt/run/step-1/.metadata.tmp" "$mnt/run/step-1/.metadata"
	run commit timeout -k 5 120 "$CKPTFS" wait "$mnt/run/step-1" >"$work/log/units" 2>&1 ||
		die "step-1 is not committed: $(tail -n 1 "$work/log/units")"
	say "  committed; its commit file:"
	sed 's/^/demo:     /' "$work/backing/run/step-1/.ckptfs-commit.json"
	say "the next one, run/step-2; the daemon is killed in the middle"
	shards step-2 2
	kill_daemon
	mount_for_saves
	there=$(ls "$work/backing/run")
	if [ "$there" != step-1 ] || [ "$(ls "$mnt/run")" != step-1 ]; then
		verdict[units]="NOT step-1 alone: ${there//$'\n'/ }"
	elif [ "$("$CKPTFS" latest --verify "$work/backing/run" 2>"$work/log/units")" = \
		"$work/backing/run/step-1" ]; then
		verdict[units]="step-1 alone is there; \`ckptfs latest --verify\` names it"
	else
		verdict[units]="NOT verified: $(tail -n 1 "$work/log/units")"
	fi
}

run_saves() {
	verify_works=''
	[ -z "${left_out[saves]-}" ] || return 0
	rm -rf "${work:?}"/plain/* "$work"/backing/*    # compared already
	choose_save_size
	choose_saver || return 0
	mkdir "$work/plain/saves" "$work/backing/saves"
	mount_for_saves
	if measure_blocked; then
		kill_daemon_half_written
		kill_daemon_half_flushed
		kill_program
		save_again
		commit_units
	fi
	stop_mount
}

# saves_went_wrong: how many rows are not as promised.
saves_went_wrong() {
	local row bad=0
	[ -z "${left_out[saves]-}" ] || { echo 0; return; }
	for row in "${saves[@]}"; do
		case ${verdict[$row]-not reached} in
		identical* | 'the old file, whole'* | 'the new file, whole'* | 'step-1 alone'*) ;;
		*) bad=$((bad + 1)) ;;
		esac
	done
	echo "$bad"
}

# What is left of this part when the demo is interrupted.
clean_saves() {
	[ "$saver" != new ] || saver=${!-}
	end_group "$saver"
	# It would go on flushing, slowly.
	[ -z "$slow_daemon" ] || kill -KILL "$slow_daemon" 2>/dev/null
}
