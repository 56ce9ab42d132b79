#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# needs: root
# timeout: 300
"""The backing is full: a save that is told so raises CheckpointError, which says what failed and
the way out; when there is room again, the next one is committed."""

import errno
import os
import subprocess
import sys

from lazily import TMP, fails, state_of

import torch

from harness.mount import Mount

import ckptfs

os.makedirs(TMP + "/back")
if subprocess.run(
    ["mount", "-t", "tmpfs", "-o", "size=24m", "none", TMP + "/back"], check=False
).returncode:
    print("cannot mount a tmpfs")
    sys.exit(77)
mount = Mount({"host_cache_size": "16M"})
torch.manual_seed(1)
model = torch.nn.Linear(1000, 1000)
optimizer = torch.optim.AdamW(model.parameters())


def step():
    optimizer.zero_grad()
    model(torch.randn(2, 1000)).sum().backward()
    optimizer.step()


step()
ckptfs.save(state_of(model, optimizer), mount.mnt + "/a.pt")
ckptfs.wait(mount.mnt + "/a.pt")
with open(mount.back + "/others", "wb") as file:  # another program's
    file.truncate(0)
    try:
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    except OSError as error:
        assert error.errno == errno.ENOSPC
# Tensors that are written, not captured; more than the cache takes.
path = mount.mnt + "/b.pt"
told = fails(ckptfs.save, {"x": torch.zeros(12 << 20)}, path)
assert told.errno == errno.ENOSPC and type(told.__cause__) is OSError, told
assert "could not be written to the backing: No space left on device" in str(told), told
assert "save 'b.pt' again" in str(told), told
os.unlink(mount.back + "/others")
ckptfs.save(state_of(model, optimizer), path)
step()
ckptfs.wait(path)
ckptfs.session_of(mount.mnt).close()
subprocess.run([os.environ["CKPTFS"], "umount", mount.mnt], stderr=subprocess.DEVNULL, check=False)
subprocess.run(["umount", mount.back], check=True)
