# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The demonstration: `make demo` builds everything and runs `bash tests/demo/demo.sh`.
# Unmodified programs write once to a plain directory and once to a ckptfs mount beside it;
# then the mount is taken down, and what is on its backing must be the same files, byte for
# byte. Then the saves (saves.bash): how long one blocks, and what is left when the daemon or the
# program is killed in the middle of one. At the end the same training stands side by side (beside.bash):
# plain, on the mount, and lazy. Last, a stock program loads a checkpoint from its view while training
# goes on (view.bash).
#
# Nothing outside the build directory and one temporary directory is touched; the latter
# and the mount are gone when this ends, however it ends.
set -u -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SRC=${SRC:-$(cd "$here/../.." && pwd)}
BUILD=${BUILD:-$SRC/build}
CKPTFS=${CKPTFS:-$BUILD/bin/ckptfs}
# shellcheck source=tests/demo/venv.bash
. "$here/venv.bash"
# shellcheck source=tests/demo/saves.bash
. "$here/saves.bash"
# shellcheck source=tests/demo/beside.bash
. "$here/beside.bash"
# shellcheck source=tests/demo/view.bash
. "$here/view.bash"

usage() {
	cat <<-END
	usage: demo.sh            (make demo)

	Runs PyTorch, safetensors, h5py, NumPy and everyday tools on a plain directory and on a
	ckptfs mount, and compares what they wrote. What cannot be installed is left out.
	Then saves a checkpoint file by turns in both, for how long that blocks; and kills the
	daemon, and the program, in the middle of a save over that file, and looks what is left;
	and saves a checkpoint of many files, and kills the daemon in the middle of the next.
	Then one training, of PyTorch or else of the example trainer in C, side by side: saved
	plainly, on the mount, and there lazily; killed in the middle of a save, and resumed.
	Then a training saves with DCP, and safetensors loads its newest checkpoint from a view.
	Exit 0: everything that ran is identical, and every file whole; 1: something differs or
	failed on the mount.

	environment
	  CKPTFS              the command to test            ($CKPTFS)
	  BUILD               keeps the Python packages      ($BUILD)
	  TMPDIR              where the two directories are made; about 4 GiB free
	  DEMO_WITHOUT        leave these out, of: torch safetensors h5py numpy saves beside view
	  DEMO_OPTS           mount options (ckptfs mount -o)
	  DEMO_TORCH          what pip is asked for          ($torch_wanted)
	  DEMO_MIB            MiB that the everyday tools copy (128)
	  DEMO_SAVE_MIB       MiB of a saved file (512, or what fits)
	  TRAINER             the example trainer            ($example_trainer)
	  CKPTFS_LIB          where libckptfs is             ($BUILD/lib)
	  DEMO_PIP_TIMEOUT    seconds for each installation  (900)
	  DEMO_TIMEOUT        seconds for each program       (600)
	  DEMO_SHARED_NS      1: mount where others see it, not in a private mount namespace
	  PYTHON              the interpreter                (python3)
	pip's own variables work: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu gets
	the CPU build of PyTorch, which is much smaller, and PIP_NO_INDEX=1 nothing at all.
	END
}

case ${1-} in
'') ;;
-h | --help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

# A mount of root's goes into a mount namespace of its own, which nothing can leak from.
if [ "$(id -u)" = 0 ] && [ -z "${DEMO_SHARED_NS-}" ] && unshare -m true 2>/dev/null; then
	DEMO_SHARED_NS=1 exec unshare -m --propagation private bash "$here/demo.sh" "$@"
fi

say() {
	echo "demo: $*"
}

die() {
	echo "demo: $*" >&2
	exit 1
}

# --- running things, interruptibly --------------------------------------------------

child='' ticker='' mounting='' work='' mnt=''
exec 3>&1

# Ends a process group that run() started, and does not return before it has ended.
end_group() {
	[ -n "$1" ] || return 0
	kill -TERM -- "-$1" 2>/dev/null || kill -TERM "$1" 2>/dev/null
	timeout 10 tail -s 0.05 --pid="$1" -f /dev/null
	kill -KILL -- "-$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

# run LABEL COMMAND...: in a session of its own, so that a signal to this script ends the
# wait at once and cleanup() decides what becomes of the command. Says every ten seconds
# that it still runs.
run() {
	local label=$1 rc
	shift
	ticker=new    # until its pid is known; cleanup() may run in between
	# shellcheck disable=SC2016 # the inner shell expands
	setsid bash -c 'while sleep 10; do echo "demo:   $0: $SECONDS s ..."; done' \
		"$label" >&3 3>&- 9>&- &
	ticker=$!
	child=new
	setsid "$@" 3>&- 9>&- &
	child=$!
	wait "$child"
	rc=$?
	child=''
	end_group "$ticker"
	ticker=''
	return $rc
}

mounted() {
	[ -n "$mnt" ] && grep -qF " ${mnt// /\\040} " /proc/self/mountinfo
}

cleanup() {
	local rc=$?
	# A child that a signal met before it became the program that it was made for.
	[ "$BASHPID" = $$ ] || exit "$rc"
	trap '' INT TERM HUP
	trap - EXIT
	[ "$ticker" != new ] || ticker=${!-}
	[ "$child" != new ] || child=${!-}
	end_group "$ticker"
	clean_saves
	# Killed half-way, a mount command could leave a daemon that mounts after this.
	[ -z "$mounting" ] || [ -z "$child" ] || wait "$child"
	end_group "$child"
	if mounted; then
		timeout -k 5 60 "$CKPTFS" umount "$mnt" >/dev/null 2>&1 ||
			timeout -k 5 60 "$CKPTFS" umount --force "$mnt" >/dev/null 2>&1
		mounted && { fusermount3 -u -z "$mnt" || umount -l "$mnt"; } >/dev/null 2>&1
		mounted && echo "demo: $mnt is still mounted" >&2
	fi
	[ -z "$work" ] || rm -rf --one-file-system "$work"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'say interrupted, cleaning up; exit 130' INT
trap 'say interrupted, cleaning up; exit 143' TERM

# --- what to run --------------------------------------------------------------------

programs=(torch safetensors h5py numpy tools)
declare -A label=(
	[torch]='PyTorch: train, torch.save'
	[safetensors]='safetensors: save_file'
	[h5py]='h5py: create, grow, change'
	[numpy]='NumPy: save, savez, memmap'
	[tools]='tar, dd, cp, gzip, sed, ...'
)
declare -A command=(
	[torch]=train_torch.py
	[safetensors]=use_safetensors.py
	[h5py]=use_h5py.py
	[numpy]=use_numpy.py
	[tools]=tools.bash
)
declare -A left_out=() failed=() verdict=() bytes=() plain_s=() mount_s=() told=()

# --- Python packages ----------------------------------------------------------------

install_all() {
	local name missing=''
	for name in ${DEMO_WITHOUT-}; do
		[ -n "${packages[$name]-}" ] || [ "$name" = saves ] || [ "$name" = beside ] || [ "$name" = view ] ||
			die "DEMO_WITHOUT: no program is called $name"
		left_out[$name]='asked for by DEMO_WITHOUT'
	done
	for name in "${!packages[@]}"; do
		[ -n "${left_out[$name]-}" ] || missing=1
	done
	[ -n "$missing" ] || return 0
	install_each numpy safetensors h5py torch
}

# --- the run ------------------------------------------------------------------------

make_work() {
	local tmp=${TMPDIR:-/tmp} free
	free=$(df --output=avail -B1M "$tmp" | tail -n 1) || die "cannot use TMPDIR=$tmp"
	[ "$free" -ge 1024 ] || die "$tmp has $free MiB free; this needs 1024," \
		"and 4096 with PyTorch (set TMPDIR)"
	if [ "$free" -lt 4096 ]; then
		left_out[torch]="needs 4096 MiB free in $tmp, which has $free (set TMPDIR)"
		say "PyTorch is left out: ${left_out[torch]}"
	fi
	work=$(realpath "$(mktemp -d "$tmp/ckptfs-demo.XXXXXX")") || die "cannot write in $tmp"
	mkdir "$work"/{plain,backing,mnt,log,input}
	export TORCHINDUCTOR_CACHE_DIR=$work/inductor    # PyTorch would make one in TMPDIR, and leave it
}

make_input() {
	local part parts=()
	for part in client engine fs tests mount-scripts Makefile README.md; do
		[ ! -e "$SRC/$part" ] || parts+=("$part")
	done
	tar -C "$SRC" --exclude=__pycache__ -cf "$work/input/tree.tar" "${parts[@]}"
	[ $? -le 1 ] || die "cannot make an archive of the source tree in $work"
	head -c "${DEMO_MIB:-128}M" /dev/urandom >"$work/input/data.bin"
}

# start_mount [OPTIONS]
start_mount() {
	local options=()
	[ -z "${1-}" ] || options=(-o "$1")
	mnt=$work/mnt
	mounting=1
	say "mounting $work/backing"
	run mount timeout -k 5 60 "$CKPTFS" mount "${options[@]}" "$work/backing" "$mnt" \
		>"$work/log/mount" 2>&1 && mounted && mounting='' && return
	mounting=''
	cat "$work/log/mount" >&2
	die "cannot mount (\`$CKPTFS doctor\` may tell why)"
}

stop_mount() {
	say "unmounting"
	run umount timeout -k 5 120 "$CKPTFS" umount "$mnt" >"$work/log/umount" 2>&1 && ! mounted &&
		return
	cat "$work/log/umount" >&2
	die "cannot unmount $mnt"
}

# run_program NAME WHERE DIR: prints nothing but progress; leaves the seconds in $seconds.
run_program() {
	local name=$1 where=$2 dir=$3/$1
	local log=$work/log/$name-$where program=("$here/${command[$name]}" "$dir")
	if [ "$name" = tools ]; then
		program+=("$work/input")
	else
		program=("$venv/bin/python" "${program[@]}")
	fi
	say "${label[$name]}: in the $where directory"
	mkdir "$dir" >"$log" 2>&1 &&
		run "${label[$name]}" timeout -k 5 "${DEMO_TIMEOUT:-600}" "${program[@]}" \
			>"$log" 2>&1 &&
		seconds=$(sed -n 's/^blocked \([0-9.]*\)$/\1/p' "$log") && [ -n "$seconds" ]
}

# Both runs of one program. Each ends with a sync, so that neither pays for the other.
run_both() {
	local name=$1 seconds=''
	if ! run_program "$name" plain "$work/plain"; then
		left_out[$name]="fails on a plain directory too: $(reason_in "$work/log/$name-plain")"
		return
	fi
	plain_s[$name]=$seconds
	bytes[$name]=$(find "$work/plain/$name" -type f -printf '%s\n' |
		awk '{ n += $1 } END { printf "%d", n }')
	run sync sync -f "$work"
	if run_program "$name" mounted "$mnt"; then
		mount_s[$name]=$seconds
	else
		failed[$name]="FAILED on the mount: $(reason_in "$work/log/$name-mounted")"
		say "${label[$name]}: ${failed[$name]}"
		tail -n 20 "$work/log/$name-mounted" | sed 's/^/demo:     /'
	fi
	run sync sync -f "$work"
}

# --- comparing ----------------------------------------------------------------------

# Type, mode, links, name and link target of everything below a directory.
listing() {
	(cd "$1" && find . ! -name .ckptfs-commit.json ! -name .ckptfs-index.json -printf '%y %m %n %P %l\n' | LC_ALL=C sort)
}

# compare PLAIN BACKING: prints the verdict.
compare() {
	local file answer differs
	differs=$(diff <(listing "$1") <(listing "$2") | sed -n '/^[<>]/{s/^</plain has:/;
		s/^>/backing has:/;p;q}')
	while IFS= read -r -d '' file; do
		answer=$(LC_ALL=C cmp -- "$1/$file" "$2/$file" 2>&1) && continue
		case $answer in
		*' differ: '*)
			answer=${answer##* differ: }    # "byte 5, line 1", or "char 5, ..."
			answer=${answer%%,*}
			echo "DIFFERS at byte ${answer#* } of $file"
			;;
		*)
			answer=${answer#cmp: } answer=${answer//$1/plain}
			echo "DIFFERS: ${answer//$2/backing}"
			;;
		esac
		return
	done < <(cd "$1" && find . -type f -printf '%P\0')
	[ -z "$differs" ] || { echo "DIFFERS: $differs"; return; }
	echo identical
}

compare_all() {
	local name
	say "comparing every file of the backing with the plain directory"
	for name in "${programs[@]}"; do
		if [ -n "${left_out[$name]-}" ]; then
			verdict[$name]="left out: ${left_out[$name]}"
		elif [ -n "${failed[$name]-}" ]; then
			verdict[$name]=${failed[$name]}
		else
			verdict[$name]=$(compare "$work/plain/$name" "$work/backing/$name")
			told[$name]=$(tensors_of "$work/backing/$name")
		fi
	done
}

# What `ckptfs tensors` finds in what a program wrote: its last line, or nothing.
tensors_of() {
	"$CKPTFS" tensors "$1" 2>/dev/null | sed -n '$s/^\([1-9]\)/, \1/p'
}

print_table() {
	local name format='%-33s %13s %9s %9s  %s\n'
	echo
	# shellcheck disable=SC2059 # one format for all lines
	{
		printf "$format" '' '' 'seconds' 'blocked' ''
		printf "$format" program bytes plain mount verdict
		for name in "${programs[@]}"; do
			printf "$format" "${label[$name]}" "${bytes[$name]--}" \
				"${plain_s[$name]--}" "${mount_s[$name]--}" "${verdict[$name]}${told[$name]-}"
		done
		[ -z "${left_out[saves]-}" ] ||
			printf "$format" 'saves, and killing' - - - "left out: ${left_out[saves]}"
		for name in "${saves[@]}"; do
			[ -n "${left_out[saves]-}" ] ||
				printf "$format" "${save_label[$name]}" "${bytes[$name]--}" \
					"${plain_s[$name]--}" "${mount_s[$name]--}" "${verdict[$name]-not reached}"
		done
	}
	echo
}

main() {
	local name identical=0 bad=0
	make_work
	[ -x "$(command -v "$CKPTFS")" ] || die "$CKPTFS is not there; run make first"
	install_all
	make_input
	start_mount "${DEMO_OPTS-}"
	for name in "${programs[@]}"; do
		[ -n "${left_out[$name]-}" ] || run_both "$name"
	done
	stop_mount
	compare_all
	run_saves
	run_beside
	run_view
	print_table
	print_beside
	print_view
	for name in "${programs[@]}"; do
		case ${verdict[$name]} in
		identical) identical=$((identical + 1)) ;;
		'left out'*) ;;
		*) bad=$((bad + 1)) ;;
		esac
	done
	[ $bad = 0 ] || die "$bad of $((identical + bad)) programs differ or failed on the mount"
	bad=$(saves_went_wrong)
	[ "$bad" = 0 ] || die "$bad of ${#saves[@]} saves did not leave what was promised"
	bad=$(beside_went_wrong)
	[ "$bad" = 0 ] || die "$bad of 2 trainings on the mount did not leave what was promised"
	[ -z "$view_ran" ] || [ -n "$view_ok" ] || die "the view did not have what was promised"
	[ $identical -gt 0 ] || die "nothing could be run"
	say "identical: $identical, left out: $((${#programs[@]} - identical))"
}

export PYTHONDONTWRITEBYTECODE=1
main
