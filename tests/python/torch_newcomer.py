#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""What a newcomer does wrong with ckptfs.save, save_file, load and `python -m ckptfs run`: each
mistake is told with its way out, and a save that returned and then failed is told by its own
name."""

import errno
import os
import subprocess
import sys
import time

from lazily import TMP, Said, fails

import torch
import torch.distributed as dist
from torch.distributed import checkpoint

from harness.digest import digest
from harness.mount import Mount, must, wait

import ckptfs.dcp
from ckptfs import autoload, lazy, safetensors_file

torch.set_num_threads(1)
mount = Mount({"host_cache_size": "64M", "capture_bw": "20M", "capture_check": "all"})
said = Said()
model = torch.nn.Linear(1000, 1000)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
GONE = (errno.ENOTCONN, errno.ECONNABORTED)


def told(number, call, *args, **kwargs):
    error = fails(call, *args, **kwargs)
    assert error.errno in (number if isinstance(number, tuple) else (number,)), (error.errno, error)
    return str(error)


def told_soon(number, call):
    """The same of a call that tells what was found out behind the program's back: as soon as that
    is known."""
    end = time.monotonic() + 60
    while True:
        try:
            call()
        except ckptfs.CheckpointError as error:
            assert error.errno == number, (error.errno, error)
            return str(error)
        assert time.monotonic() < end, "nothing was raised"
        time.sleep(0.02)


def refused(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


def run(*arguments, status=0, **env):
    ran = subprocess.run(
        [sys.executable, "-m", "ckptfs", "run", *arguments],
        env=dict(os.environ, **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == status, (arguments, ran.returncode, ran.stdout)
    return ran.stdout


# A name that no rule claims: written, and told once in this process.
for name in "m.bin", "n.bin":
    ckptfs.save(model.state_dict(), mount.mnt + "/" + name)
    assert digest(torch.load(mount.mnt + "/" + name)) == digest(model.state_dict())
assert said.lines == [
    "m.bin is no name of a checkpoint here: not lazy, not atomic, no digest. "
    "Call it .pt or .safetensors, or add a rule (ckptfs-rules(5))"
], said.lines
said.lines.clear()
os.environ["CKPTFS_REQUIRE"] = "1"
text = told(errno.EINVAL, ckptfs.save, model.state_dict(), mount.mnt + "/m.bin")
assert text.startswith(
    mount.mnt + "/m.bin was written, but m.bin is no name of a checkpoint here"
), text

# Required, and not mounted: no save, no load.
for call in (
    lambda path: ckptfs.save(model.state_dict(), path),
    lambda path: safetensors_file.save_file(model.state_dict(), path),
    ckptfs.load,
):
    assert f"plain.pt lies in no mount of ckptfs: {TMP} is an ordinary directory on " in told(
        errno.ENOTTY, call, TMP + "/plain.pt"
    )
assert not os.path.exists(TMP + "/plain.pt")
with open("train.py", "w", encoding="utf-8") as file:
    file.write(
        "import io, sys, torch\n"
        "torch.save(1, io.BytesIO())\n"
        "torch.save({'w': torch.zeros(9)}, sys.argv[1])\n"
        "print('went on')\n"
    )
told_by = run("train.py", TMP + "/plain.pt", status=1)
assert (
    "lies in no mount of ckptfs" in told_by
    and "went on" not in told_by
    and not os.path.exists(TMP + "/plain.pt")
)
assert "went on" in run("train.py", mount.mnt + "/run.pt")
assert "went on" in run("train.py", TMP + "/plain.pt", CKPTFS_REQUIRE=mount.mnt)
assert "went on" in run("train.py", TMP + "/plain.pt", CKPTFS_REQUIRE="0")
# Nor without the library.
assert "no libckptfs: /nowhere" in run(
    "train.py", mount.mnt + "/run.pt", status=1, CKPTFS_LIB="/nowhere"
)
del os.environ["CKPTFS_REQUIRE"]
said.lines.clear()
lazy._said.clear()
ckptfs.save(1, TMP + "/plain.pt")
assert (
    len(said.lines) == 1
    and "CKPTFS_REQUIRE=1, makes that an error" in said.lines[0]
    and "plain.pt lies in no mount" in said.lines[0]
), said.lines
said.lines.clear()

# Arguments and paths.
path = mount.mnt + "/a.pt"
assert (
    refused(TypeError, ckptfs.save, path, model.state_dict())
    == "ckptfs.save(obj, path): the path comes second, as in torch.save"
)
os.makedirs(mount.mnt + "/run")
text = told(errno.EISDIR, ckptfs.save, model.state_dict(), mount.mnt + "/run")
assert (
    text
    == f"{mount.mnt}/run is a directory: give the name of a file, such as {mount.mnt}/run/step-1.pt"
), text
text = told(errno.ENOENT, ckptfs.save, model.state_dict(), mount.mnt + "/none/a.pt")
assert (
    text == f"{mount.mnt}/none/a.pt: its directory does not exist. "
    f"os.makedirs('{mount.mnt}/none', exist_ok=True) makes it"
), text
text = told(errno.EISDIR, ckptfs.load, mount.mnt + "/run")
assert "is a directory" in text and "ckptfs.dcp.Reader(path)" in text, text
tensors = mount.mnt + "/a.safetensors"
for wrong, why in (
    ({"w": 3}, "save_file: w is an int, not a tensor"),
    ({"w": {"x": torch.zeros(3)}}, "save_file: w is a dict, not a tensor; flatten"),
    ({3: torch.zeros(3)}, "save_file: the name 3 is an int, not a text"),
    (model, "save_file wants a dict of names and tensors"),
    ([torch.zeros(3)], "not a list"),
):
    assert why in refused(TypeError, ckptfs.save_file, wrong, tensors), why
assert not os.path.exists(tensors) and not said.lines, said.lines
with ckptfs.open(mount.mnt + "/by-torch.ckpt") as file:
    torch.save(model.state_dict(), file)
ckptfs.wait(mount.mnt + "/by-torch.ckpt")
assert digest(torch.load(mount.back + "/by-torch.ckpt")) == digest(model.state_dict())

# A tensor that is changed too early: the file, the tensor, the way out; once.
model(torch.randn(2, 1000)).sum().backward()
optimizer.step()
ckptfs.save(model.state_dict(), mount.mnt + "/step-9.pt")
with torch.no_grad():
    model.weight.add_(1)
text = told(errno.ESTALE, ckptfs.barrier)
assert text.startswith(
    mount.mnt + "/step-9.pt failed: weight was changed before it was captured: "
    "no barrier came before the change"
), text
assert text.endswith(
    "; torch knows that these were changed since: weight. "
    "Call ckptfs.barrier() before you change weights outside optimizer.step(). "
    "Earlier checkpoints stand"
), text
assert "rank" not in text and "ckptfs_" not in text, text
ckptfs.barrier()
wait(lambda: not os.path.exists(mount.mnt + "/step-9.pt"))
ckptfs.save(model.state_dict(), mount.mnt + "/step-10.pt")
optimizer.step()
ckptfs.wait(mount.mnt + "/step-10.pt")
assert not said.lines, said.lines

# A part of a directory that has failed is told once; what its job saves then is saved. Nothing is
# told of what was given up.
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def save_directory(name):
    checkpoint.save(model.state_dict(), storage_writer=ckptfs.dcp.Writer(mount.mnt + "/" + name))


save_directory("dcp-1")
with torch.no_grad():
    model.weight.add_(1)
text = told(errno.ESTALE, ckptfs.barrier)
assert text.startswith(mount.mnt + "/dcp-1/__0_0.distcp failed: "), text
save_directory("dcp-2")
optimizer.step()
ckptfs.wait(mount.mnt + "/dcp-2")
save_directory("dcp-3")
ckptfs.barrier()
os.makedirs(mount.mnt + "/dcp-4")
with open(mount.mnt + "/dcp-4/__0_0.distcp", "wb") as file:
    file.write(b"x")
lazy.fates.watch(mount.mnt + "/dcp-4/__0_0.distcp")
ckptfs.abandon(mount.mnt + "/dcp-4")
ckptfs.barrier()
# One that somebody else gives up is.
os.makedirs(mount.mnt + "/dcp-5")
with open(mount.mnt + "/dcp-5/__0_0.distcp", "wb") as file:
    file.write(b"x")
lazy.fates.watch(mount.mnt + "/dcp-5/__0_0.distcp")
must("commit", "--abandon", mount.mnt + "/dcp-5")
text = told_soon(errno.ECANCELED, ckptfs.barrier)
assert "'dcp-5' was abandoned" in text, text
save_directory("dcp-6")
ckptfs.wait(mount.mnt + "/dcp-6")
dist.destroy_process_group()
assert not said.lines, said.lines

# The backing is full: the save that returned is told by the next one, by its own name, and the one
# behind that is made.
ckptfs.session_of(mount.mnt).close()
mount.umount()
small = TMP + "/small"
os.makedirs(small)
if (
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=14m", "none", small], check=False
    ).returncode
    == 0
):
    full = Mount({"host_cache_size": "64M"}, "full", "small")
    ckptfs.save(model.state_dict(), full.mnt + "/s0.pt")
    optimizer.step()
    ckptfs.wait(full.mnt + "/s0.pt")
    with open(full.back + "/others", "wb") as file:  # another program's
        file.write(bytes(7 << 20))
    ckptfs.save(model.state_dict(), full.mnt + "/s1.pt")
    optimizer.step()
    wait(lambda: not os.path.exists(full.mnt + "/s1.pt"))
    wait(lambda: lazy.fates._failures)  # the next save tells what is known by then
    text = told(errno.ENOSPC, ckptfs.save, model.state_dict(), full.mnt + "/s2.pt")
    assert (
        text.startswith(full.mnt + "/s1.pt: ")
        and "No space left on device" in text
        and "s2.pt" not in text
    ), text
    os.unlink(full.back + "/others")
    ckptfs.save(model.state_dict(), full.mnt + "/s2.pt")
    optimizer.step()
    ckptfs.wait(full.mnt + "/s2.pt")
    ckptfs.session_of(full.mnt).close()
    full.umount()
    ckptfs.barrier()  # nothing is said of what was saved, and unmounted
    subprocess.run(["umount", small], check=True)

# The daemon has ended: save, load and an unchanged torch.save say so; then the process goes on with
# the next mount.
mount.start()
ckptfs.save(model.state_dict(), path)
ckptfs.barrier()
ckptfs.wait(path)
mount.kill()
autoload.enable()
for call in (
    lambda path: ckptfs.save(model.state_dict(), path),
    lambda path: torch.save(model.state_dict(), path),
    lambda path: ckptfs.save_file(model.state_dict(), path + ".safetensors"),
    ckptfs.load,
):
    text = told(GONE, call, path)
    assert f"the daemon of {mount.mnt} is not running." in text, text
    assert "Earlier checkpoints are safe, and training may go on" in text, text
    assert f"`ckptfs umount {mount.mnt}`, then mount again" in text, text
optimizer.step()
text = run("train.py", path, status=1)
assert f"the daemon of {mount.mnt} is not running" in text, text
mount.umount()
mount.start()
assert digest(ckptfs.load(path)) is not None
ckptfs.save(model.state_dict(), mount.mnt + "/b.pt")
optimizer.step()
ckptfs.wait(mount.mnt + "/b.pt")
ckptfs.session_of(mount.mnt).close()
mount.umount()

# All ranks have the answer of the first.
with open("ranks.py", "w", encoding="utf-8") as file:
    file.write("""if True:
    import sys, torch.distributed as dist, ckptfs
    dist.init_process_group("gloo")
    rank, back = dist.get_rank(), sys.argv[1]
    assert ckptfs.latest(back if rank == 0 else "/nowhere", group=True) == back + "/b.pt"
    try:
        ckptfs.latest(back if rank else "/nowhere", group=dist.new_group([0, 1]))
    except ckptfs.CheckpointError as error:
        assert "/nowhere: there is no such directory" in str(error), error
    else:
        raise AssertionError
    last = dist.new_group([1])
    if rank == 1:
        assert ckptfs.latest(back, group=last) == back + "/b.pt"
    dist.destroy_process_group()
""")
subprocess.run(
    [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "0",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "127.0.0.1:0",
        "ranks.py",
        mount.back,
    ],
    check=True,
    timeout=200,
)
