#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-dist
# timeout: 600
# needs: root
# The program runs in the image that the example for Kubernetes describes: a bare Debian 12 with the packages listed there.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/dist/roots.bash"

grep -qs '^VERSION_ID="12"' /etc/os-release || skip "the program was not built on Debian 12"
bare_root bookworm
may_download
read -r -a packages < <(sed -n 's/^#.*apt-get install -y --no-install-recommends //p' "$SRC/mount-scripts/kubernetes.yaml")
install_in_root "${packages[@]}"
cp "$CKPTFS" "$ROOT/usr/local/bin/ckptfs"
use_command
