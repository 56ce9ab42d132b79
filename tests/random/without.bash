# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What tests of randops leave out; source it after lib.sh.

. "$SRC/tests/fs/faults.bash"

# randops_without SEED: sets WITHOUT, the options for a run on $MNT. A kernel that cannot map files that are open
# directly (the README's direct_mmap) gets opens for writing only, or shared mappings, not both: the seed chooses.
# shellcheck disable=SC2034 # for tests
randops_without() {
	WITHOUT=()
	status_is "s['features']['direct_mmap'] == 'yes'" && return
	if (($1 % 2)); then
		WITHOUT=(--without mmap_shared)
	else
		WITHOUT=(--without write_only)
	fi
}
