# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the demo ends with (demo.sh sources this), side by side: one training program that saves itself to a plain
# directory; to the mount, unmodified; and there lazily. How long its saves block it, whether its files are the same, and
# what is left when it is killed in the middle of a save and started again. It is train_resume.py, which needs PyTorch, or
# else the example trainer in C.
# shellcheck disable=SC2154,SC2034 # demo.sh, venv.bash and saves.bash have, and use, the rest

ways=(plain mount lazy)
declare -A way_label=([plain]='plain directory' [mount]='on the mount, unmodified' [lazy]='on the mount, lazy')
declare -A blocked_s=() longer_s=() training_s=() same=() survived=()
beside_steps=6 beside_old=2 beside_new=4    # of what is there, and of the save that is killed
beside_ran='' plain_sum=''
example_trainer=${TRAINER:-$BUILD/tests/trainer/trainer}

# Half of what other saves are: three are kept, in two places.
choose_trainee() {
	local mib=$((save_mib / 2))
	beside_what="$mib MiB of state, saved at each 2nd of $beside_steps steps"
	if [ -z "${left_out[torch]-}" ] && [ -x "$venv/bin/python" ]; then
		beside_what="PyTorch, AdamW, $beside_what"
		suffix=.pt begins_as=.pt
		plain_words=("$venv/bin/python" "$here/train_resume.py" DIR "$mib" "$beside_steps")
		lazy_words=("$venv/bin/python" -m ckptfs run "${plain_words[@]:1}")
		export CKPTFS_LIB=${CKPTFS_LIB:-$BUILD/lib} PYTHONPATH=$SRC/client/python${PYTHONPATH:+:$PYTHONPATH}
	elif [ -x "$example_trainer" ]; then
		beside_what="the example trainer in C, $beside_what (PyTorch is left out: ${left_out[torch]-no environment})"
		suffix='' begins_as=/__0_1.distcp    # the second of its three files
		lazy_words=("$example_trainer" --every 2 --steps "$beside_steps" --elements $((mib * 24380)) DIR)
		plain_words=("${lazy_words[0]}" --plain "${lazy_words[@]:1}")
	else
		left_out[beside]="neither PyTorch nor $example_trainer is there"
	fi
}

# words_of WAY DIR: sets words.
words_of() {
	words=("${plain_words[@]}")
	[ "$1" != lazy ] || words=("${lazy_words[@]}")
	words=("${words[@]/#DIR/$2}")
}

# train WAY DIR: to its end.
train() {
	local words
	words_of "$1" "$2"
	run "${way_label[$1]}" timeout -k 5 "${DEMO_TIMEOUT:-600}" "${words[@]}" >"$work/log/train" 2>&1
}

# What the program has printed.
told() {
	sed -n "s/^$1 //p" "$work/log/train" | tail -n 1
}

# sum_of DIR: of the tensors in its last checkpoint.
sum_of() {
	if [ -n "$suffix" ]; then
		told sum    # torch's file says when it was written, too: loaded, it is the same
	else
		(cd "$1/step-$beside_steps" && sha256sum __* .metadata) | sha256sum
	fi
}

# is_last DIR: what a backing has is whole, and so is what was saved last.
is_last() {
	[ "$("$CKPTFS" latest --verify "$1" 2>&1)" = "$1/step-$beside_steps$suffix" ]
}

# kill_training WAY DIR: when its second save has begun.
kill_training() {
	local words begun=$2/step-$beside_new$begins_as
	words_of "$1" "$2"
	saver=new    # what is ended if the demo is interrupted
	setsid "${words[@]}" >"$work/log/train" 2>&1 3>&- &
	saver=$!
	until_true "${DEMO_TIMEOUT:-600}" "its first save" has_come_to "$2/step-$beside_old$suffix"
	until [ -s "$begun" ] || [ ! -e "/proc/$saver/exe" ]; do :; done    # a sleep would miss it
	kill -KILL "$saver"
	wait "$saver" 2>/dev/null
	saver=''
	[ -s "$begun" ] || [ "$1" != plain ] || die "the training ends too early: $(reason_in "$work/log/train")"
}

has_come_to() {
	[ -e "$1" ] || not_running "$saver"
}

nothing_pending() {
	! "$CKPTFS" status --json "$mnt" | grep -q '"pending": \[$'
}

settle() {
	[ "$1" = plain ] || until_true 120 "all of it is on the backing" nothing_pending
}

# train_whole WAY DIR SHOWN: not killed. SHOWN is what DIR is without the mount.
train_whole() {
	local before
	before=$(status_number captured_bytes)
	if ! train "$1" "$2"; then
		survived[$1]="FAILED: $(reason_in "$work/log/train")"
		tail -n 20 "$work/log/train" | sed 's/^/demo:     /'
		return 1
	fi
	blocked_s[$1]=$(told blocked) longer_s[$1]=$(told longer) training_s[$1]=$(told training)
	settle "$1"
	if [ "$1" = plain ]; then
		plain_sum=$(sum_of "$3")
	elif [ "$(sum_of "$3")" = "$plain_sum" ] && is_last "$3"; then
		same[$1]=yes
	else
		survived[$1]="NOT the same tensors" same[$1]=no
		return 1
	fi
	if [ "$1" = lazy ] && [ "$(status_number captured_bytes)" = "$before" ]; then
		survived[$1]="NOT lazy: $(tail -n 1 "$work/log/train")"
		return 1
	fi
	[ "$1" = plain ] || rm -rf "$2"
}

# came_too_late WAY SHOWN: was the save complete when the kill came?
came_too_late() {
	local new=step-$beside_new$suffix
	[ -e "$2/$new" ] && { [ "$1" != plain ] || { [ -n "$suffix" ] && same_size "$2/$new" "$work/plain/whole/$new"; }; }
}

same_size() {
	[ "$(stat -c %s "$1")" = "$(stat -c %s "$2")" ]
}

# what_is_left WAY SHOWN: after the kill.
what_is_left() {
	local old=$2/step-$beside_old$suffix new=$2/step-$beside_new$suffix named
	if [ "$1" = plain ]; then
		survived[$1]="step-$beside_new$suffix, torn"
		[ -e "$new" ] || survived[$1]="step-$beside_new$suffix is not there"
		return 0
	fi
	named=$("$CKPTFS" latest --verify "$2" 2>"$work/log/latest")
	survived[$1]="${old##*/}, verified"
	[ "$named" = "$old" ] && [ ! -e "$new" ] && return 0
	survived[$1]="NOT ${old##*/} alone: \`ckptfs latest --verify\` says ${named:-$(tail -n 1 "$work/log/latest")}"
	return 1
}

# start_again WAY DIR SHOWN: it goes on from what is left.
start_again() {
	if ! train "$1" "$2"; then
		survived[$1]+="; cannot go on: $(reason_in "$work/log/train" | sed 's/^[A-Za-z]*Error: //' | cut -c 1-60)"
		[ "$1" = plain ]
		return
	fi
	settle "$1"
	if [ "$(sum_of "$3")" = "$plain_sum" ] && { [ "$1" = plain ] || is_last "$3"; }; then
		survived[$1]+="; goes on to the same weights"
	else
		survived[$1]="NOT the same weights after it was $(grep ^resumed "$work/log/train")"
	fi
}

# beside WAY DIR SHOWN: one line of the table.
beside() {
	local way=$1 dir=$2 shown=$3 tries=0
	say "the same training: ${way_label[$way]}"
	mkdir "$dir/whole"
	train_whole "$way" "$dir/whole" "$shown/whole" || return 0
	say "  again; it is killed in the middle of a save, and started again"
	while
		mkdir "$dir/killed"
		kill_training "$way" "$dir/killed"
		settle "$way"
		[ $tries -lt 3 ] && came_too_late "$way" "$shown/killed"
	do
		rm -rf "$dir/killed"
		tries=$((tries + 1))
	done
	what_is_left "$way" "$shown/killed" || return 0
	start_again "$way" "$dir/killed" "$shown/killed"
	rm -rf "$dir/killed"
}

run_beside() {
	[ -z "${left_out[beside]-}" ] || return 0
	rm -rf "${work:?}"/plain/* "$work"/backing/*
	choose_save_size
	choose_trainee
	[ -z "${left_out[beside]-}" ] || return 0
	beside_ran=1
	mount_for_saves
	beside plain "$work/plain" "$work/plain"
	beside mount "$mnt" "$work/backing"
	beside lazy "$mnt" "$work/backing"
	stop_mount
}

print_beside() {
	local way format='%-26s %11s %10s %9s  %-5s  %s\n'
	if [ -z "$beside_ran" ]; then
		say "side by side: left out: ${left_out[beside]}"
		return
	fi
	echo
	echo "Side by side: $beside_what"
	# shellcheck disable=SC2059 # one format for all lines
	{
		printf "$format" seconds 'save blocks' 'next step' training same 'after kill -9 in the middle of a save'
		for way in "${ways[@]}"; do
			printf "$format" "${way_label[$way]}" "${blocked_s[$way]--}" "+${longer_s[$way]--}" \
				"${training_s[$way]--}" "${same[$way]--}" "${survived[$way]-not reached}"
		done
	}
	echo
}

# How many lines are not as promised; of the plain directory nothing is.
beside_went_wrong() {
	local way bad=0
	[ -n "$beside_ran" ] || { echo 0; return; }
	for way in mount lazy; do
		[[ ${survived[$way]-} == *'verified; goes on to the same weights' ]] || bad=$((bad + 1))
	done
	echo "$bad"
}
