#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""ckptfs.load: what torch.load returns, read by several threads, with progress; of files that it
cannot read so, too."""

import collections
import io
import os
import struct
import threading

from lazily import TMP, fails

import torch

from harness.digest import digest
from harness.mount import Mount

import ckptfs
from ckptfs import loading

torch.set_num_threads(1)
mount = Mount({"host_cache_size": "128M"})
path = mount.mnt + "/a.pt"
torch.manual_seed(4)
whole = torch.randn(5 << 20)
state = {
    "whole": whole,
    "view": whole[5:9],
    "empty": torch.empty(0),
    "empties": [torch.empty(0), torch.empty(0, 3)],
    "half": whole[:999].half(),
    "flags": whole[:77] > 0,
    "sparse": torch.eye(5).to_sparse(),
    "step": 3,
    "parameter": torch.nn.Parameter(torch.randn(50)),
    "ordered": collections.OrderedDict(a=torch.randn(70000)),
    "complex": torch.randn(9, dtype=torch.complex128),
}
dense = {key: value for key, value in state.items() if key != "sparse"}
torch.save(state, path)
told, threads, read = [], set(), os.preadv


def watched(*args):
    threads.add(threading.get_ident())
    return read(*args)


os.preadv = watched
for map_location in (
    None,
    "cpu",
    torch.device("cpu"),
    {"cpu": "cpu"},
    lambda storage, location: storage,
    lambda storage, location: None,
):
    told.clear()
    got = ckptfs.load(path, map_location, progress=lambda done, total: told.append((done, total)))
    assert torch.equal(got["sparse"].to_dense(), torch.eye(5))
    del got["sparse"]
    assert digest(got) == digest(dense)
    assert got["view"].untyped_storage().data_ptr() == got[
        "whole"
    ].untyped_storage().data_ptr() and isinstance(got["parameter"], torch.nn.Parameter)
    assert told == sorted(told) and told[-1][0] == told[-1][1] > 20 << 20 and len(told) >= 4
assert len(threads) > 2  # large ones by several
os.preadv = read
meta = ckptfs.load(path, "meta")
assert meta["whole"].is_meta

# What skip_data writes, too: and what torch alone can read.
model = torch.nn.Linear(300, 300)
session = ckptfs.Session(mount.mnt)
session.register(model)
ckptfs.save(model.state_dict(), mount.mnt + "/b.pt")
assert digest(ckptfs.load(mount.mnt + "/b.pt", weights_only=True)) == digest(model.state_dict())
assert digest(ckptfs.load(mount.mnt + "/b.pt", mmap=True)) == digest(model.state_dict())
torch.save(dense, TMP + "/old.pt", _use_new_zipfile_serialization=False)
assert digest(ckptfs.load(TMP + "/old.pt")) == digest(dense)
with open(mount.mnt + "/b.pt", "rb") as file:
    assert digest(ckptfs.load(io.BytesIO(file.read()))) == digest(model.state_dict())
torch.save({"mine": struct.Struct}, TMP + "/class.pt")
for wrong in {"weights_only": True}, {}:
    try:
        ckptfs.load(TMP + "/class.pt", **wrong)
    except Exception as error:
        assert "weights_only" in str(error)
    else:
        raise AssertionError
assert ckptfs.load(TMP + "/class.pt", weights_only=False)["mine"] is struct.Struct
try:
    ckptfs.load(mount.mnt + "/none.pt")
except FileNotFoundError:
    pass
else:
    raise AssertionError


# A file that ends within a tensor, behind the planning's back.
class Shorter(loading._Reader):
    def fill(self, storage):
        os.truncate(TMP + "/short.pt", 1 << 20)
        super().fill(storage)


torch.save(dense, TMP + "/short.pt")
reader, loading._Reader = loading._Reader, Shorter
error = fails(ckptfs.load, TMP + "/short.pt")
assert "it ends at 1048576, within a tensor" in str(error), error
loading._Reader = reader
session.close()
mount.umount()
