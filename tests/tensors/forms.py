# SPDX-License-Identifier: MIT
"""Makes files in the forms of torch.save, torch.distributed.checkpoint and safetensors without
torch: pickles that name its classes, and zip files around them. Real files of real packages are
in trees/. These here are for what no package writes."""

import io
import json
import pickle
import struct
import sys
import types
import zipfile

SIZES = {
    "ComplexDoubleStorage": 16,
    "FloatStorage": 4,
    "HalfStorage": 2,
    "LongStorage": 8,
    "ByteStorage": 1,
}


def _module(name):
    """It, and what it is in: pickle imports all of them."""
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
        if "." in name:
            above, last = name.rsplit(".", 1)
            setattr(_module(above), last, sys.modules[name])
            sys.modules[above].__path__ = []
    return sys.modules[name]


def named(module, name):
    """A class that a pickle names @module.@name."""
    found = getattr(_module(module), name, None)
    if found is None:
        found = type(name, (), {"__module__": module, "__qualname__": name})
        setattr(_module(module), name, found)
    return found


def function(module, name):
    found = getattr(_module(module), name, None)
    if found is None:

        def found(*_args):
            raise AssertionError("a pickle was run")

        found.__module__, found.__name__, found.__qualname__ = module, name, name
        setattr(_module(module), name, found)
    return found


class Call:
    """What pickles as a call of @callee."""

    def __init__(self, callee, *args):
        self.callee, self.args = callee, args

    def __reduce__(self):
        return self.callee, self.args


class Storage:
    def __init__(self, key, kind, data):
        self.key, self.kind, self.data = key, kind, data


def size(*shape):
    return Call(named("torch", "Size"), tuple(shape))


def tensor(storage, shape, first=0, stride=None):
    if stride is None:
        stride, step = [], 1
        for n in reversed(shape):
            stride.insert(0, step)
            step *= n
    return Call(
        function("torch._utils", "_rebuild_tensor_v2"),
        storage,
        first,
        tuple(shape),
        tuple(stride),
        False,
        {},
    )


class _Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.storages = {}

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        self.storages[obj.key] = obj
        elements = len(obj.data) // SIZES[obj.kind]
        return "storage", named("torch", obj.kind), obj.key, "cpu", elements


def dumps(root):
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(root)
    return file.getvalue(), pickler.storages


def zip_of(data, storages=None, compress=False):
    """The bytes of a torch.save file around the pickle @data."""
    file = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", how) as z:
        z.writestr("archive/data.pkl", data)
        for storage in (storages or {}).values():
            z.writestr(f"archive/data/{storage.key}", storage.data)
    return file.getvalue()


def torch_save(root, path, **how):
    with open(path, "wb") as file:
        file.write(zip_of(*dumps(root), **how))


def safetensors(tensors, path, metadata=None):
    """@tensors: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


METADATA = "torch.distributed.checkpoint.metadata"


def instance(module, name, **state):
    made = named(module, name)()
    made.__dict__.update(state)
    return made


def metadata(tensors, items, transforms=()):
    """The pickle of .metadata. @tensors: name -> (shape, [(offset, length), ...]), of float32.
    @items: (name, offset) -> (path, at, bytes). @transforms: how all items are compressed."""
    float32 = named("torch", "float32")
    return pickle.dumps(
        instance(
            METADATA,
            "Metadata",
            state_dict_metadata={
                name: instance(
                    METADATA,
                    "TensorStorageMetadata",
                    properties=instance(METADATA, "TensorProperties", dtype=float32),
                    size=size(*shape),
                    chunks=[
                        instance(
                            METADATA,
                            "ChunkStorageMetadata",
                            offsets=size(*offset),
                            sizes=size(*length),
                        )
                        for offset, length in chunks
                    ],
                )
                for name, (shape, chunks) in tensors.items()
            },
            storage_data={
                instance(METADATA, "MetadataIndex", fqn=name, offset=size(*offset)): instance(
                    "torch.distributed.checkpoint.filesystem",
                    "_StorageInfo",
                    relative_path=path,
                    offset=at,
                    length=length,
                    transform_descriptors=list(transforms),
                )
                for (name, offset), (path, at, length) in items.items()
            },
        ),
        protocol=2,
    )
