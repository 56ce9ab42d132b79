# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests in bare roots of Debian; source it after lib.sh. A root is made once, by mmdebstrap, and kept below
# $BUILD/roots; a test writes to an overlay of its own. What this host needs to reach its mirror and package index (proxies,
# certificates, pip's configuration) is handed in when a command runs there, and is written nowhere else.

ROOT=         # of the last bare_root
FILE=         # of the last made
# shellcheck disable=SC2034 # for tests
SUITES=${CKPTFS_TEST_SUITES:-bookworm trixie}

needs_fuse
needs_root
[ "$TEST_PRIVATE" = 1 ] || skip "no mount and pid namespaces of its own, to be a host in"

# Prints the mirror of Debian that this host uses.
_mirror() {
	local uri
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$')
	echo "${uri:-http://deb.debian.org/debian}"
}

# _make_root SUITE: $BUILD/roots/SUITE, which has what Debian calls essential, and apt.
_make_root() {
	local options=() way proxy
	needs mmdebstrap
	for way in http https; do
		eval "$(apt-config shell proxy "Acquire::$way::Proxy")"
		[ -z "${proxy:-}" ] || options+=(--aptopt="Acquire::$way::Proxy \"$proxy\"")
		proxy=
	done
	rm -rf "$BUILD/roots/$1.new"
	if ! timeout 900 mmdebstrap --quiet --variant=minbase --components=main ${options[@]+"${options[@]}"} "$1" \
		"$BUILD/roots/$1.new" "$(_mirror)" >"$TEST_TMP/mmdebstrap" 2>&1; then
		rm -rf "$BUILD/roots/$1.new"
		skip "no bare root of Debian $1: $(grep -m 1 "^E:" "$TEST_TMP/mmdebstrap")"
	fi
	mv "$BUILD/roots/$1.new" "$BUILD/roots/$1"
}

# pass_in PATH...: files and directories of this host that are to be seen in the root, at the same path.
pass_in() {
	local path
	for path; do
		[ ! -d "$path" ] || mkdir -p "$ROOT$path"
		[ -d "$path" ] || { mkdir -p "$(dirname "$ROOT$path")" && touch "$ROOT$path"; }
		mount --bind "$path" "$ROOT$path" || die "cannot show $path in the root"
	done
}

# bare_root SUITE: sets $ROOT to a fresh one, with /proc, /dev/fuse and the network of this host.
bare_root() {
	local node place=$TEST_TMP/root-$1
	mkdir -p "$BUILD/roots" "$place/upper" "$place/work" "$place/root"
	(
		flock 9
		[ -d "$BUILD/roots/$1" ] || _make_root "$1"
	) 9>"$BUILD/roots/.lock" || { local rc=$?; [ "$rc" != 77 ] || exit 77; die "no root"; }
	ROOT=$place/root
	mount -t overlay -o "lowerdir=$BUILD/roots/$1,upperdir=$place/upper,workdir=$place/work" overlay "$ROOT" ||
		skip "no overlay filesystem"
	mount -t proc proc "$ROOT/proc"
	mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
	mkdir "$ROOT/dev/shm"
	mount -t tmpfs tmpfs "$ROOT/dev/shm"
	for node in null zero full random urandom tty fuse; do
		[ ! -e "/dev/$node" ] || pass_in "/dev/$node"
	done
	ln -s /proc/self/fd "$ROOT/dev/fd"
	cp --remove-destination /etc/resolv.conf "$ROOT/etc/resolv.conf"
	cp --remove-destination /etc/hosts "$ROOT/etc/hosts"
}

# in_root COMMAND...: as a login of root would run it, in /root.
in_root() {
	env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive ${_network[@]+"${_network[@]}"} chroot "$ROOT" /bin/sh -c 'cd /root && exec "$@"' - "$@"
}
_network=()

# may_download: commands in the root reach what this host reaches, in the same way. Skips where the mirror is not to be had.
may_download() {
	local name value path authority=${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
	if [ -f "$authority" ]; then
		cp "$authority" "$ROOT/run/authority.crt"
		_network+=(PIP_CERT=/run/authority.crt SSL_CERT_FILE=/run/authority.crt)
	fi
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
		[ -z "${!name:-}" ] || _network+=("$name=${!name}")
	done
	while IFS='=' read -r name value; do
		name=${name##*.}
		name=${name//-/_}
		value=${value#\'}
		value=${value%\'}
		[ "$name" != cert ] || continue
		_network+=("PIP_${name^^}=$value")
		for path in ${value//file:\/\//}; do
			[[ $path != /* || ! -e $path || -e $ROOT$path ]] || pass_in "$path"
			# A simple index refers to files that lie beside it.
			[[ $path != */simple ]] || [ ! -d "${path%/simple}/files" ] || [ -d "$ROOT${path%/simple}/files" ] ||
				pass_in "${path%/simple}/files"
		done
	done < <(pip3 config list 2>/dev/null || pip config list 2>/dev/null)
	in_root apt-get -qq -o APT::Update::Error-Mode=any update >"$TEST_TMP/apt" 2>&1 ||
		skip "Debian's mirror cannot be reached: $(tail -n 1 "$TEST_TMP/apt")"
}

# install_in_root PACKAGE...
install_in_root() {
	in_root apt-get install -qq -y --no-install-recommends "$@" >"$TEST_TMP/apt" 2>&1 || die "apt-get: $(tail -n 5 "$TEST_TMP/apt")"
}

# use_command [PREFIX]: doctor, mount, save, wait, verify, latest, umount, with the `ckptfs` of PATH, led by PREFIX's bin. And what
# a host without libcurl says of coord=etcd.
use_command() {
	cat >"$ROOT/root/use.sh" <<'END'
set -eux
[ -z "$1" ] || PATH=$1/bin:$PATH
mkdir -p /pfs/ckpt /ckpt
ckptfs --version
ckptfs doctor /pfs/ckpt
ckptfs mount -o host_cache_size=64M /pfs/ckpt /ckpt
head -c 3000000 /dev/urandom >/model
cp /model /ckpt/step-1.pth
ckptfs wait /ckpt/step-1.pth
cmp /model /pfs/ckpt/step-1.pth
ckptfs verify /pfs/ckpt/step-1.pth
ckptfs ls /ckpt
ckptfs umount /ckpt
if ckptfs mount -o coord=etcd:http://127.0.0.1:1 /pfs/ckpt /ckpt 2>/refused; then exit 1; fi
grep "option coord=etcd needs libcurl, which this host lacks: libcurl.so.4: cannot open shared object file" /refused
END
	expect_ok in_root sh use.sh "${1-}"
}

# use_python PYTHON: its package ckptfs saves, waits and restores, without torch.
use_python() {
	cat >"$ROOT/root/use.py" <<'END'
import os, subprocess
import ckptfs
os.makedirs("/pfs/ckpt", exist_ok=True)
os.makedirs("/ckpt", exist_ok=True)
subprocess.run(["ckptfs", "mount", "-o", "host_cache_size=64M", "/pfs/ckpt", "/ckpt"], check=True)
session = ckptfs.Session("/ckpt", arena_bytes=4 << 20)
weights = bytearray(os.urandom(3 << 20))
with open("/ckpt/step-2.pth", "wb", 0) as file:
	session.write(file, {"weights": weights})
	session.barrier()
ckptfs.wait("/ckpt/step-2.pth", "committed", timeout=60)
session.close()
with open("/pfs/ckpt/step-2.pth", "rb") as file:
	assert file.read() == weights
subprocess.run(["ckptfs", "verify", "/pfs/ckpt/step-2.pth"], check=True)
subprocess.run(["ckptfs", "umount", "/ckpt"], check=True)
END
	expect_ok in_root "$1" use.py
}

# made PATTERN: sets $FILE to the one that `make dist` has made, and shows it in the root as /dist/NAME.
made() {
	local found
	found=$(compgen -G "$BUILD/dist/$1") || skip "$BUILD/dist/$1 is not there: make dist makes it"
	# shellcheck disable=SC2034 # for tests
	FILE=/dist/${found##*/}
	mkdir -p "$ROOT/dist"
	cp "$found" "$ROOT/dist/"
}
