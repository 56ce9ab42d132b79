#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: lint
# timeout: 600
# What can be said of the sources without running them. `make lint` runs it; one line for each check.

set -u

SRC=${SRC:-$(cd "$(dirname "$0")/../.." && pwd)}
BUILD=${BUILD:-$SRC/build}
cd "$SRC" || exit 1

PYTHON_TOOLS=$BUILD/lint/venv
passed=0
failed=0

# check NAME COMMAND...: COMMAND prints what is wrong and fails, or does neither.
check() {
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		printf 'ok      %s\n' "$name"
		passed=$((passed + 1))
	else
		printf '%s\n' "$out" | head -n 40 | sed 's/^/    | /'
		printf 'FAIL    %s: %s lines\n' "$name" "$(printf '%s\n' "$out" | wc -l)"
		failed=$((failed + 1))
	fi
}

# files PATTERN...: those of the repository that match, new ones included.
files() {
	git ls-files -co --exclude-standard -- "$@" | sort -u | while read -r file; do
		[ ! -f "$file" ] || printf '%s\n' "$file"
	done
}

# texts: every file that a person wrote.
texts() {
	files | grep -v -e '^tests/fuzz/\(corpus\|crashes\)/' -e '\.xz$'
}

# nothing COMMAND...: fails if it prints something.
nothing() {
	local out
	out=$("$@")
	[ -z "$out" ] || { printf '%s\n' "$out"; return 1; }
}

formatted() {
	local file bad=0
	while read -r file; do
		clang-format "$file" | cmp -s - "$file" && continue
		printf '%s: differs from what clang-format makes of it\n' "$file"
		bad=1
	done < <(files '*.c' '*.h')
	return "$bad"
}

spelled_shell() {
	local list
	mapfile -t list < <(files '*.sh' '*.bash' mount-scripts .ci/run tests/fuzz/fuzz tests/kernel/run | while read -r file; do
		# Those of mount-scripts have no ending of their own.
		[[ $file != mount-scripts/* ]] || head -n 1 "$file" | grep -q '^#!.*sh$' && printf '%s\n' "$file"
	done)
	# A few at a time on each processor: all take minutes.
	printf '%s\0' "${list[@]}" | xargs -0 -n 16 -P "$(nproc)" shellcheck -x -S warning
}

# The units, with the commands where they are built. systemd-analyze says with words alone that it knows a key not.
units_are_valid() {
	local dir unit
	dir=$(mktemp -d)
	for unit in $(files 'mount-scripts/*.service'); do
		sed "s|^\(Exec[A-Za-z]*=-\?\)ckptfs |\1$(realpath "$BUILD")/bin/ckptfs |" "$unit" >"$dir/${unit##*/}"
		(cd "$dir" && nothing systemd-analyze verify --man=no "./${unit##*/}" 2>&1)
	done | nothing cat
	rm -r "$dir"
}

yaml_is_valid() {
	local list
	mapfile -t list < <(files '*.yaml' '*.yml')
	python3 -c 'import sys, yaml
for path in sys.argv[1:]:
	with open(path, encoding="utf-8") as file:
		assert all(isinstance(part, dict) for part in yaml.safe_load_all(file)), path' "${list[@]}"
}

# check_with COMMAND NAME FUNCTION: says so where the COMMAND is not there.
check_with() {
	if sh -c "$1" >/dev/null 2>&1; then
		check "$2" "$3"
	else
		printf 'skipped %s: needs %s\n' "$2" "$1"
	fi
}

man_pages() {
	local list
	mapfile -t list < <(files '*.1' '*.3' '*.5' '*.7' '*.8')
	[ ${#list[@]} = 0 ] || mandoc -T lint -W warning "${list[@]}"
}

# Prints, sorted, what `ckptfs mount --help` lists as options.
options_of_help() {
	"$BUILD/bin/ckptfs" mount --help | sed -n '/^Mount options/,$s/^  \([a-z_]*\)[ =].*/\1/p' | sort
}

# The same of ckptfs-conf(5): items of its section on mount options.
options_of_man() {
	sed -n '/^\.Sh MOUNT OPTIONS/,/^\.Sh [^M]/s/^\.It Cm \([a-z_]*\).*/\1/p' engine/config/ckptfs-conf.5 | sort
}

options_documented() {
	[ -x "$BUILD/bin/ckptfs" ] || { echo "$BUILD/bin/ckptfs is not built"; return 1; }
	diff <(options_of_help) <(options_of_man) | sed -n 's/^< \(.*\)/ckptfs-conf(5) lacks the option \1/p
		s/^> \(.*\)/ckptfs-conf(5) has an option that there is not: \1/p' | nothing cat
}

verbs_documented() {
	local verb bad=0
	for verb in $(sed -n 's/^const struct verb verb_\([a-z]*\) = {$/\1/p' fs/cmd/*.c); do
		grep -q "\\b$verb\\b" fs/ckptfs.1 || { echo "fs/ckptfs.1 lacks the verb $verb"; bad=1; }
	done
	return "$bad"
}

# Each built-in rule is an item of ckptfs-rules(5).
rules_documented() {
	local rule
	sed -n 's/^{"name": "\([a-z-]*\)".*/\1/p' engine/rule/presets.c | while read -r rule; do
		grep -qx "\.It Cm $rule" engine/rule/ckptfs-rules.5 || echo "ckptfs-rules(5) lacks the rule $rule"
	done | nothing cat
}

# The tables that tools write are as they wrote them.
tables_rendered() {
	python3 tests/frameworks/table.py --check && python3 -B tests/bench/record.py --check
}

messages_used() {
	local id bad=0
	while read -r id; do
		grep -rqw --include='*.c' --include='*.h' --exclude=messages.h -e "$id" engine fs && continue
		echo "MSG_$id is used nowhere"
		bad=1
	done < <(sed -n 's/^#define MSG_\([A-Z0-9_]*\).*/\1/p' engine/base/messages.h)
	return "$bad"
}

licensed() {
	local file bad=0
	while read -r file; do
		head -n 5 "$file" | grep -q 'SPDX-License-Identifier: MIT' && continue
		echo "$file has no SPDX line"
		bad=1
	done < <(texts | grep -v -e '^\.' -e '\.json$')
	return "$bad"
}

# Where this copy lies, or somebody's home, belongs in no file.
no_own_paths() {
	local file
	texts | while read -r file; do
		grep -nHF -e "$SRC/" -- "$file"
		grep -nHE "(^|[[:blank:]\"'=(:])/(home|Users)/" -- "$file"
	done | nothing cat
}

no_open_ends() {
	local file
	texts | while read -r file; do
		[ "$file" = tests/lint/lint.sh ] || grep -nHwE '(TODO|FIXME|XXX)' -- "$file" | grep -vE '(TODO|FIXME|XXX) ?\(#[0-9]+\)'
	done | nothing cat
}

no_stray_blanks() {
	local file
	texts | while read -r file; do
		grep -nHE '[[:blank:]]+$' -- "$file"
	done | nothing cat
}

# ruff and mypy, of the versions in requirements.txt, in an environment of their own. Prints why it cannot have them.
python_tools() {
	cmp -s tests/lint/requirements.txt "$PYTHON_TOOLS/requirements.txt" && return
	python3 -m venv --clear "$PYTHON_TOOLS" &&
		"$PYTHON_TOOLS/bin/pip" install -q --no-input --disable-pip-version-check --retries 1 \
			-r tests/lint/requirements.txt &&
		cp tests/lint/requirements.txt "$PYTHON_TOOLS/"
}

# check_python NAME FUNCTION: says so where the tools are not there.
check_python() {
	if [ -z "$lacking" ]; then
		check "$@"
	else
		printf 'skipped %s: needs tests/lint/requirements.txt: %s\n' "$1" "$lacking"
	fi
}

python_files() {
	files '*.py' tests/run
}

python_formatted() {
	python_files | xargs "$PYTHON_TOOLS/bin/ruff" format --no-cache --check --quiet
}

python_clean() {
	python_files | xargs "$PYTHON_TOOLS/bin/ruff" check --no-cache --quiet --output-format concise
}

# The packages, in the oldest Python that they are for.
python_typed() (
	cd client/python && "$PYTHON_TOOLS/bin/mypy" --strict --python-version 3.8 --no-error-summary \
		--cache-dir "$BUILD/lint/mypy" ckptfs datastates
)

# Of the newest commits: `area: imperative`, at most 72 columns, no semicolon.
subjects() {
	git log -20 --no-merges --format=%s 2>/dev/null | grep -nvE '^[a-z0-9_./-]+: [^;]{1,}$' |
		nothing sed 's/^/not "area: what", or with a semicolon: /' &&
		git log -20 --no-merges --format=%s 2>/dev/null | awk 'length > 72 { print length ": " $0 }' | nothing cat
}

# A script that begins with #! can be executed, and one that cannot does not look as if it could.
executable_bits() {
	local file
	texts | while read -r file; do
		if [ "$(head -c 2 "$file" | tr -d '\0')" = '#!' ]; then
			[ -x "$file" ] || echo "$file begins with #! and is not executable"
		elif [ -x "$file" ]; then
			echo "$file is executable and does not begin with #!"
		fi
	done | nothing cat
}

check "C is formatted" formatted
check "includes point in the right direction" python3 tests/lint/includes.py
check "comments say who does what" python3 tests/lint/comments.py
check "commits have subjects in form" subjects
check "states are set by their setters alone" python3 tests/lint/states.py
check "a call on the backing says as whom" python3 tests/lint/acting.py
check "shell is clean" spelled_shell
if lacking=$(python_tools 2>&1); then
	lacking=
else
	lacking=${lacking##*$'\n'}
fi
check_python "python is formatted" python_formatted
check_python "python is clean" python_clean
check_python "the Python package has types" python_typed
check_with "systemd-analyze --version" "systemd units are valid" units_are_valid
check_with "python3 -c 'import yaml'" "YAML is valid" yaml_is_valid
check "man pages are well-formed" man_pages
check "documents are short, and what they refer to exists" python3 tests/lint/documents.py
check "what documents quote is so" python3 tests/lint/quoted.py
check "options are documented" options_documented
check "verbs are documented" verbs_documented
check "rules are documented" rules_documented
check "tables are as measured" tables_rendered
check "messages are used" messages_used
check "files have a licence" licensed
check "no paths of this machine" no_own_paths
check "no open ends without an issue" no_open_ends
check "no blanks at line ends" no_stray_blanks
check "scripts are executable" executable_bits

printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
