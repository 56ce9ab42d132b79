# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The Python environment of the demo: $BUILD/demo-venv. demo.sh sources this. It has:
# run LABEL COMMAND..., say, an array left_out, and a directory $work/log.

venv=$BUILD/demo-venv
torch_wanted=${DEMO_TORCH:-torch==2.13.0}
declare -A packages=(
	[torch]=$torch_wanted
	[safetensors]='safetensors numpy'
	[h5py]='h5py numpy'
	[numpy]='numpy'
)

# The last line of a log that says what went wrong, short enough for the table.
reason_in() {
	{ grep -E '^ERROR|Error|error:' "$1" || tail -n 1 "$1"; } | tail -n 1 |
		sed 's/^ERROR: //' | cut -c 1-100
}

python_works() {
	"$1" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null
}

leave_out_python() {
	local name
	for name in torch safetensors h5py numpy; do
		[ -n "${left_out[$name]-}" ] || left_out[$name]=$1
	done
	say "$1: going on without the Python programs"
}

make_venv() {
	local python=${PYTHON:-python3}
	"$venv/bin/python" -m pip --version >/dev/null 2>&1 && return 0
	if ! python_works "$python"; then
		leave_out_python "no Python 3.8 or later ($python)"
		return 1
	fi
	mkdir -p "$BUILD"
	say "making a Python environment in $venv"
	# shellcheck disable=SC2154 # $work: of demo.sh, which reads this
	if ! run venv "$python" -m venv --clear "$venv" >"$work/log/venv" 2>&1; then
		rm -rf "$venv"
		leave_out_python "python3 -m venv does not work here (apt install python3-venv)"
		return 1
	fi
}

# install NAME: what this program imports, unless it is there.
install() {
	local name=$1 seconds=${DEMO_PIP_TIMEOUT:-900} rc
	local log=$work/log/pip-$name imports=$name
	[ "$name" = numpy ] || [ "$name" = torch ] || imports+=,numpy
	"$venv/bin/python" -c "import $imports" >/dev/null 2>&1 && return 0
	say "installing ${packages[$name]} (at most $seconds s)"
	# shellcheck disable=SC2086 # a list of packages
	run "pip install $name" timeout -k 10 "$seconds" "$venv/bin/python" -m pip install \
		--disable-pip-version-check --no-input ${packages[$name]} \
		>"$log" 2>&1
	rc=$?
	if [ $rc = 124 ] || [ $rc = 137 ]; then
		left_out[$name]="pip install took longer than $seconds s"
	elif [ $rc != 0 ]; then
		left_out[$name]="pip install: $(reason_in "$log")"
	elif ! "$venv/bin/python" -c "import $imports" >"$log" 2>&1; then
		left_out[$name]="does not import: $(reason_in "$log")"
	fi
	[ -z "${left_out[$name]-}" ] || say "$name is left out: ${left_out[$name]}"
}

# install_each NAME...: one demo at a time, since they may share the build directory.
install_each() {
	local name
	mkdir -p "$BUILD"
	exec 9>"$BUILD/demo-venv.lock"
	until flock -n 9; do
		say "waiting for another demo that installs"
		run lock flock "$BUILD/demo-venv.lock" true
	done
	if make_venv; then
		for name; do
			[ -n "${left_out[$name]-}" ] || install "$name"
		done
	fi
	exec 9>&-
}
