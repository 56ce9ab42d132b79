#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""A script that knows nothing of ckptfs: `python -m ckptfs run` makes its saves on a mount lazy,
and so does CKPTFS_LAZY=1 where the package is installed, from the tree and without an index;
nothing else of it changes. Where libckptfs is missing or the mount another release's, the job goes
on with torch.save."""

import filecmp
import os
import subprocess
import sys
import textwrap

from lazily import SRC, TMP

import torch

from harness.digest import digest
from harness.mount import Mount

mount = Mount({"host_cache_size": "64M", "capture_check": "all"})
INSTALLED = TMP + "/installed"
with open("train.py", "w", encoding="utf-8") as file:
    file.write(
        textwrap.dedent("""
        import os, sys
        import torch
        assert __name__ == "__main__", __name__
        assert sys.path[0] == os.path.dirname(os.path.abspath(sys.argv[0])), sys.path
        import beside

        def main(directory, *more):
            torch.manual_seed(1)
            torch.set_num_threads(1)
            model = torch.nn.Linear(300, 300)
            optimizer = torch.optim.AdamW(model.parameters())
            os.makedirs(directory, exist_ok=True)
            for i in range(4):
                optimizer.zero_grad()
                model(torch.randn(4, 300)).square().mean().backward()
                optimizer.step()
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                state["step"] = i
                torch.save(state, "%s/step-%d.pt" % (directory, i))
            print("lazy" if hasattr(torch.save, "ckptfs_inner") else "plain", *more)
            sys.exit(int(os.environ.get("STATUS", 0)))

        main(*sys.argv[1:])
    """)
    )
with open("beside.py", "w", encoding="utf-8") as file:
    file.write("")


def run(*command, status=0, **env):
    ran = subprocess.run(
        [sys.executable, *command],
        env=dict(os.environ, **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == status, (command, ran.returncode, ran.stdout)
    return ran.stdout


def captured():
    return mount.metric("captures_total")


def saved(directory):
    return [digest(torch.load(f"{directory}/step-{i}.pt")) for i in range(4)]


script = TMP + "/train.py"
assert run(script, TMP + "/plain") == "plain\n"
right = saved(TMP + "/plain")

# By a command; what else it does is not changed.
assert (
    run("-m", "ckptfs", "run", script, mount.mnt + "/run", "more", "-x", "--help")
    == "lazy more -x --help\n"
)
assert captured() == 4 * 3 and saved(mount.mnt + "/run") == right
assert run("-m", "ckptfs", "run", "-m", "train", mount.mnt + "/run") == "lazy\n"
assert run("-m", "ckptfs", "run", script, mount.mnt + "/run", status=3, STATUS="3") == "lazy\n"
before = captured()
assert run("-m", "ckptfs", "run", script, TMP + "/other") == "lazy\n" and captured() == before
for i in range(4):
    assert filecmp.cmp(TMP + f"/other/step-{i}.pt", TMP + f"/plain/step-{i}.pt", shallow=False)
assert "there is no such file" in run("-m", "ckptfs", "run", TMP + "/none.py", status=1)
for wrong in (), ("run",), ("walk", "x"), ("run", "-m"):
    assert "usage:" in run("-m", "ckptfs", *wrong, status=2)
assert "usage:" in run("-m", "ckptfs", "--help")

# Its last save failed when it had returned.
with open("stale.py", "w", encoding="utf-8") as file:
    file.write(
        textwrap.dedent("""
        import sys, torch
        model = torch.nn.Linear(2000, 2000)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.weight.grad = torch.ones(2000, 2000)
        torch.save(0, sys.argv[1] + "/first.pt")
        optimizer.step()
        for i in range(50):
            torch.save(model.state_dict(), sys.argv[1] + "/stale.pt")
            model.weight.data.add_(1)
        sys.exit(0)
    """)
    )
assert "changed before it was captured" in run(
    "-m", "ckptfs", "run", TMP + "/stale.py", mount.mnt, status=1
)

# Installed, by its entry point, and only if it is asked to.
run(
    "-m",
    "pip",
    "install",
    "--no-index",
    "--no-deps",
    "--quiet",
    "--disable-pip-version-check",
    "--target",
    INSTALLED,
    SRC + "/client/python",
)
assert not os.path.exists(SRC + "/client/python/build")
env = {"PYTHONPATH": INSTALLED}
before = captured()
assert run(script, mount.mnt + "/run", **env) == "plain\n" and captured() == before
assert run(script, mount.mnt + "/run", CKPTFS_LAZY="0", **env) == "plain\n" and captured() == before
assert (
    run(script, mount.mnt + "/run", CKPTFS_LAZY="1", **env) == "lazy\n"
    and captured() == before + 4 * 3
)
assert saved(mount.mnt + "/run") == right
cheap = (
    "import sys, torch; assert hasattr(torch.save, 'ckptfs_inner'); "
    "l = sys.modules['ckptfs._lib']; assert l._loaded is None"
    "; assert 'ckptfs.lazy' not in sys.modules"
)
run("-c", cheap, CKPTFS_LAZY="1", **env)
run("-c", "import ckptfs, sys; print(ckptfs.__file__); assert ckptfs.save", **env)

# Without the library: torch.save, and it is said once.
before = captured()
told = run(script, mount.mnt + "/run", CKPTFS_LAZY="1", CKPTFS_LIB="/nowhere", **env)
assert told.count("no libckptfs: /nowhere") == 1 and told.endswith("lazy\n"), told
assert captured() == before and saved(mount.mnt + "/run") == right
mount.umount()
