# SPDX-License-Identifier: MIT
"""What pip calls to install the package from the source tree (PEP 517, PEP 660): it is Python
alone, so that a wheel is a zip of it, and nothing has to be downloaded to make one. `make dist`
calls build_binary_wheel, whose wheel brings libckptfs and the command along."""

import base64
import hashlib
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("ckptfs", "datastates")
METADATA = """Metadata-Version: 2.1
Name: ckptfs
Version: %s
Summary: Checkpoints that are captured while training goes on, on a mount of ckptfs
License: MIT
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
with open(os.path.join(HERE, "README.md"), encoding="utf-8") as _readme:
    METADATA += _readme.read().replace("%", "%%")
ENTRY_POINTS = "[torch.backends]\nckptfs = ckptfs.autoload:autoload\n"
COMMAND = "\n[console_scripts]\nckptfs = ckptfs.command:main\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: ckptfs\nRoot-Is-Purelib: %s\nTag: %s\n"
ANY = "py3-none-any"


def _version():
    with open(os.path.join(HERE, "ckptfs", "__init__.py"), encoding="utf-8") as file:
        return re.search(r'^__version__ = "(.*)"', file.read(), re.MULTILINE).group(1)


def _sources():
    for package in PACKAGES:
        for directory, _, names in sorted(os.walk(os.path.join(HERE, package))):
            for name in sorted(names):
                if name.endswith((".py", ".typed")):
                    path = os.path.join(directory, name)
                    yield os.path.relpath(path, HERE), path


def _wheel(directory, files, tag=ANY, licences=None):
    """Of {name: bytes}; its file's name. Files that begin as programs do can be executed. @tag:
    ANY, or what the files run on; @licences: more {name: bytes}, for the directory of licences."""
    info = f"ckptfs-{_version()}.dist-info/"
    entry_points = ENTRY_POINTS + (COMMAND if tag != ANY else "")
    files = dict(
        files,
        **{
            info + "METADATA": (METADATA % _version()).encode(),
            info + "WHEEL": (WHEEL % ("true" if tag == ANY else "false", tag)).encode(),
            info + "entry_points.txt": entry_points.encode(),
        },
    )
    files.update({info + "licenses/" + name: data for name, data in (licences or {}).items()})
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    name = f"ckptfs-{_version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for entry, data in files.items():
            file = zipfile.ZipInfo(entry)  # the same bytes at each time
            file.external_attr = (0o100755 if data.startswith(b"\x7fELF") else 0o100644) << 16
            file.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(file, data)
    return name


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {name: _read(path) for name, path in _sources()})


def build_binary_wheel(wheel_directory, more, licences, tag):
    """The package and @more files of it, which run where @tag says."""
    return _wheel(
        wheel_directory,
        dict({name: _read(path) for name, path in _sources()}, **more),
        tag,
        licences,
    )


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {"ckptfs.pth": (HERE + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    top = f"ckptfs-{_version()}"
    with tarfile.open(os.path.join(sdist_directory, top + ".tar.gz"), "w:gz") as archive:
        for name in ("pyproject.toml", "README.md", "backend.py"):
            archive.add(os.path.join(HERE, name), top + "/" + name)
        for name, path in _sources():
            archive.add(path, top + "/" + name)
    return top + ".tar.gz"
