# SPDX-License-Identifier: MIT
"""Makes, of what `make install` put below --tree, a relocatable tarball, a Python wheel and a
Debian package.

All three hold the same files: the program finds its own copies of libfuse3, jansson, liburing and
xxhash in ../lib/ckptfs, so that a host needs nothing but glibc, of the version that the binaries
ask for or a newer one. The same sources give the same bytes on the same host: times are
SOURCE_DATE_EPOCH, or that of the last commit."""

import argparse
import gzip
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "client", "python"))
import backend

# Of glibc: every host has its own, and no other fits.
GLIBC = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so")
INSTALL = """ckptfs %(version)s for Linux, %(machine)s, glibc %(glibc)s or newer.

This directory may lie anywhere, as a whole: a copy of bin/ckptfs alone does not find lib, a link to
it does. It needs nothing but glibc and a kernel with FUSE; users other than root also need
fusermount3 (Debian: package fuse3), and coord=etcd needs libcurl (Debian: libcurl4).

    export PATH=$PWD/bin:$PATH MANPATH=$PWD/share/man: PYTHONPATH=$PWD/python
    ckptfs doctor DIRECTORY

For `mount -t ckptfs` and /etc/fstab, as root:
ln -s $PWD/sbin/mount.ckptfs $PWD/sbin/umount.fuse.ckptfs /sbin
and ln -s mount.ckptfs /sbin/mount.fuse.ckptfs.
The systemd unit is lib/systemd/system/ckptfs@.service.
"""
CONTROL = """Package: ckptfs
Version: %(version)s
Architecture: %(architecture)s
Maintainer: The authors of ckptfs <root@localhost>
Installed-Size: %(kib)d
Depends: libc6 (>= %(glibc)s)
Recommends: fuse3
Suggests: libcurl4, python3 (>= 3.8)
Section: admin
Priority: optional
Description: atomic, non-blocking checkpoints on a parallel filesystem
 ckptfs is a FUSE filesystem for the checkpoints of training jobs. A program
 writes its checkpoint into a bounded cache, and the files appear in the
 backing directory whole or not at all.
"""
# The unit is read anew; mounts that are there stay as they are.
RELOAD = "#!/bin/sh\nset -e\n[ ! -d /run/systemd/system ] || systemctl daemon-reload\n"


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def epoch():
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told:
        return int(told)
    try:
        return int(output("git", "-C", TOP, "log", "-1", "--format=%ct"))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 315532800  # 1980, the first that a zip can say


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def files_below(top):
    """Every file and link, sorted."""
    for directory, directories, names in os.walk(top):
        directories.sort()
        for name in sorted(names):
            yield os.path.join(directory, name)


def licence():
    """The text of the licence, as a file of its own has it."""
    _, _, text = read(os.path.join(HERE, "copyright")).decode().partition("License: MIT\n")
    lines = (line[1:] for line in text.splitlines())
    return (
        "MIT License\n\nCopyright (c) The authors of ckptfs\n\n"
        + "\n".join("" if line == "." else line for line in lines)
        + "\n"
    )


def bundle(usr, program):
    """Puts @program into the tree, its libraries beside it, and the licences of these."""
    private = os.path.join(usr, "lib", "ckptfs")
    licences = os.path.join(usr, "share", "doc", "ckptfs", "licences")
    os.makedirs(private)
    os.makedirs(licences)
    shutil.copy(program, os.path.join(usr, "bin", "ckptfs"))
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", program), re.MULTILINE):
        if GLIBC.match(name):
            continue
        shutil.copyfile(path, os.path.join(private, name))
        package = (
            output("dpkg", "-S", "*/" + os.path.basename(os.path.realpath(path))).split(":")[0]
            if shutil.which("dpkg")
            else name
        )
        text = f"/usr/share/doc/{package}/copyright"
        if not os.path.exists(text):
            sys.exit(f"dist.py: {path}, which goes into the packages, has no licence in {text}")
        shutil.copyfile(text, os.path.join(licences, package))
    write(os.path.join(usr, "share", "doc", "ckptfs", "LICENSE"), licence())


def is_elf(path):
    return not os.path.islink(path) and read(path)[:4] == b"\x7fELF"


def strip(usr):
    for path in files_below(usr):
        if is_elf(path):
            subprocess.run(["strip", "--strip-unneeded", path], check=True)


def glibc_of(usr):
    """The oldest glibc that has all that the binaries ask for: (2, 34)."""
    asked = [(2, 17)]
    for path in files_below(usr):
        if is_elf(path):
            asked += [
                (int(major), int(minor))
                for major, minor in re.findall(
                    r"\bGLIBC_(\d+)\.(\d+)", output("readelf", "-V", "-W", path)
                )
            ]
    return max(asked)


def set_modes(top):
    """Whatever the umask was."""
    for path in files_below(top):
        if not os.path.islink(path):
            os.chmod(path, 0o755 if os.stat(path).st_mode & 0o100 else 0o644)
    for directory, _, _ in os.walk(top):
        os.chmod(directory, 0o755)


def compress(data, when):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=when) as file:
        file.write(data)
    return out.getvalue()


def tarball(out, usr, python, facts, when):
    """ckptfs-VERSION-linux-MACHINE.tar.gz"""
    name = f"ckptfs-{facts['version']}-linux-{facts['machine']}"
    top = os.path.join(out, "tarball", name)
    shutil.copytree(usr, top, symlinks=True)
    for path, data in python.items():
        write(os.path.join(top, "python", path), data.decode())
    os.symlink("../../lib/libckptfs.so.1", os.path.join(top, "python", "ckptfs", "libckptfs.so.1"))
    write(os.path.join(top, "INSTALL"), INSTALL % facts)
    write(os.path.join(top, "LICENSE"), licence())
    configured = os.path.join(top, "lib", "pkgconfig", "ckptfs.pc")
    write(
        configured,
        read(configured)
        .decode()
        .replace("/usr/", "${prefix}/")
        .replace("prefix=/usr\n", "prefix=${pcfiledir}/../..\n"),
    )
    set_modes(top)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in files_below(top):
            entry = archive.gettarinfo(path, os.path.relpath(path, os.path.join(out, "tarball")))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = when
            if entry.isreg() and entry.size:
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    with open(os.path.join(out, name + ".tar.gz"), "wb") as file:
        file.write(compress(data.getvalue(), when))


def wheel(out, usr, facts):
    """The Python package with libckptfs, the command and the libraries of that."""
    files = {
        "ckptfs/libckptfs.so.1": read(os.path.join(usr, "lib", "libckptfs.so.1")),
        "ckptfs/bin/ckptfs": read(os.path.join(usr, "bin", "ckptfs")),
    }
    for path in files_below(os.path.join(usr, "lib", "ckptfs")):
        files["ckptfs/lib/ckptfs/" + os.path.basename(path)] = read(path)
    licences = {"LICENSE": licence().encode()}
    for path in files_below(os.path.join(usr, "share", "doc", "ckptfs", "licences")):
        licences[os.path.basename(path)] = read(path)
    backend.build_binary_wheel(
        out,
        files,
        licences,
        f"py3-none-manylinux_{facts['glibc'].replace('.', '_')}_{facts['machine']}",
    )


def debian_package(out, tree, python, facts, when):
    """ckptfs_VERSION_ARCHITECTURE.deb"""
    if not shutil.which("dpkg-deb"):
        print("no .deb: this host has no dpkg-deb")
        return
    top = os.path.join(out, "deb")
    shutil.copytree(tree, top, symlinks=True)
    for path, data in python.items():
        write(os.path.join(top, "usr/lib/python3/dist-packages", path), data.decode())
    doc = os.path.join(top, "usr/share/doc/ckptfs")
    os.remove(os.path.join(doc, "LICENSE"))
    shutil.copyfile(os.path.join(HERE, "copyright"), os.path.join(doc, "copyright"))
    for path in list(files_below(os.path.join(top, "usr/share/man"))):
        with open(path + ".gz", "wb") as file:
            file.write(compress(read(path), 0))
        os.remove(path)
    set_modes(top)
    facts = dict(
        facts,
        architecture=output("dpkg", "--print-architecture").strip(),
        kib=sum(os.lstat(path).st_size for path in files_below(top)) // 1024 + 1,
    )
    write(os.path.join(top, "DEBIAN/control"), CONTROL % facts)
    write(os.path.join(top, "DEBIAN/triggers"), "activate-noawait ldconfig\n")
    for script in ("postinst", "postrm"):
        write(os.path.join(top, "DEBIAN", script), RELOAD)
        os.chmod(os.path.join(top, "DEBIAN", script), 0o755)
    os.chmod(os.path.join(top, "DEBIAN"), 0o755)
    subprocess.run(
        [
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "--build",
            top,
            os.path.join(out, f"ckptfs_{facts['version']}_{facts['architecture']}.deb"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env=dict(os.environ, SOURCE_DATE_EPOCH=str(when)),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the command, with its RUNPATH")
    parser.add_argument(
        "--tree", required=True, help="where `make install prefix=/usr` put the rest"
    )
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    out, usr, when = arguments.out, os.path.join(arguments.tree, "usr"), epoch()
    for name in os.listdir(out):
        if name.endswith((".tar.gz", ".whl", ".deb")):
            os.remove(os.path.join(out, name))
    for work in ("tarball", "deb", "pure"):
        shutil.rmtree(os.path.join(out, work), ignore_errors=True)
    bundle(usr, arguments.program)
    strip(usr)
    set_modes(arguments.tree)
    facts = {
        "version": backend._version(),
        "machine": platform.machine(),
        "glibc": ".".join(map(str, glibc_of(usr))),
    }
    os.mkdir(os.path.join(out, "pure"))
    with zipfile.ZipFile(
        os.path.join(out, "pure", backend.build_wheel(os.path.join(out, "pure")))
    ) as archive:
        python = {name: archive.read(name) for name in archive.namelist()}
    tarball(out, usr, python, facts, when)
    wheel(out, usr, facts)
    debian_package(out, arguments.tree, python, facts, when)
    for work in ("tarball", "deb", "pure"):
        shutil.rmtree(os.path.join(out, work), ignore_errors=True)
    for name in sorted(os.listdir(out)):
        if name.endswith((".tar.gz", ".whl", ".deb")):
            path = os.path.join(out, name)
            print(f"{os.path.getsize(path) / 1e3:8.1f} kB  {path}")
    print(f"They need glibc {facts['glibc']} or newer, that of the host that built them.")


if __name__ == "__main__":
    main()
