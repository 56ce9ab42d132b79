#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 200
"""Views of other names and shapes: random maps and layouts make what a naive copy makes, in the
form of DCP, too. Then what
maps and layouts may not say, where they are found, and files of NumPy. CKPTFS_TEST_SEEDS=N does N
seeds, CKPTFS_TEST_SEED=N the first."""

import ast
import itertools
import json
import math
import os
import random
import shutil
import struct
import subprocess

CKPTFS = os.environ["CKPTFS"]
SEEDS = int(os.environ.get("CKPTFS_TEST_SEEDS", "60"))
FIRST = int(os.environ.get("CKPTFS_TEST_SEED", "0"))
os.chdir(os.environ["TEST_TMP"])


class Array:
    """A shape, and the numbers in row-major order."""

    def __init__(self, shape, values):
        self.shape, self.values = list(shape), list(values)
        assert len(self.values) == math.prod(self.shape)

    def at(self, place):
        index = 0
        for length, one in zip(self.shape, place):
            index = index * length + one
        return self.values[index]

    def places(self):
        return itertools.product(*map(range, self.shape))

    def reshaped(self, shape):
        return Array(shape, self.values)

    def part(self, dim, begin, end):
        shape = self.shape[:dim] + [end - begin] + self.shape[dim + 1 :]
        whole = Array(shape, [0] * math.prod(shape))
        return Array(
            shape,
            [self.at(p[:dim] + (p[dim] + begin,) + p[dim + 1 :]) for p in whole.places()],
        )

    def ordered(self, order):
        shape = [self.shape[axis] for axis in order]
        back = [order.index(axis) for axis in range(len(order))]
        whole = Array(shape, [0] * math.prod(shape))
        return Array(shape, [self.at(tuple(p[b] for b in back)) for p in whole.places()])


def joined(arrays, dim):
    shape = list(arrays[0].shape)
    shape[dim] = sum(one.shape[dim] for one in arrays)
    values = []
    for place in Array(shape, [0] * math.prod(shape)).places():
        rest = place[dim]
        for one in arrays:
            if rest < one.shape[dim]:
                break
            rest -= one.shape[dim]
        values.append(one.at(place[:dim] + (rest,) + place[dim + 1 :]))
    return Array(shape, values)


def save(path, arrays):
    """As safetensors."""
    header, data = {}, b""
    for name, one in arrays.items():
        more = struct.pack(f"<{len(one.values)}I", *one.values)
        header[name] = {
            "dtype": "U32",
            "shape": one.shape,
            "data_offsets": [len(data), len(data) + len(more)],
        }
        data += more
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__")
    found = {}
    for name, one in header.items():
        begin, end = one["data_offsets"]
        found[name] = Array(one["shape"], struct.unpack(f"<{(end - begin) // 4}I", data[begin:end]))
    return found


def export(unit, spec, out="out", status=0):
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(f".{out}.part", ignore_errors=True)
    done = subprocess.run(
        [CKPTFS, "export", f"{unit}/.view/{spec}", out], capture_output=True, text=True
    )
    assert done.returncode == status, (spec, done.stderr)
    return done.stderr


def put(path, value):
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))


def same(got, wanted):
    assert sorted(got) == sorted(wanted), (sorted(got), sorted(wanted))
    for name, one in wanted.items():
        assert (got[name].shape, got[name].values) == (one.shape, one.values), name


def fresh(draw, shape):
    return Array(shape, [draw.randrange(1 << 32) for _ in range(math.prod(shape))])


def random_rule(draw, nr, arrays, wanted):
    """Adds sources and what comes of them; returns the rule."""
    rule = {"from": f"s{nr}.0", "to": f"t{nr}"}
    cut = [draw.randrange(1, 4) for _ in range(draw.randrange(1, 4))]
    ndim = draw.randrange(1, 4)
    dim = draw.randrange(ndim)
    shape = [draw.randrange(1, 5) for _ in range(ndim)]
    rows = draw.randrange(1, 4) if draw.random() < 0.3 else 0
    nr_from = draw.choice([1, 1, 2, 3])
    join = draw.randrange(len(cut)) if nr_from > 1 else 0
    take = None
    if draw.random() < 0.5:
        axis = draw.choice([a for a in range(len(cut)) if nr_from == 1 or a != join] or [None])
        if axis is not None:
            begin = draw.randrange(cut[axis])
            take = [axis, begin, draw.randrange(begin + 1, cut[axis] + 1)]
    order = list(range(len(cut)))
    draw.shuffle(order)
    pieces = []
    for k in range(nr_from):
        own = list(cut)
        if nr_from > 1:
            own[join] = draw.randrange(1, 4)
        shape[dim] = math.prod(own)
        whole = fresh(draw, ([rows] if rows else []) + shape)
        arrays[f"s{nr}.{k}"] = whole
        pieces.append((whole, own))
    if nr_from > 1:
        rule["from"] = [f"s{nr}.{k}" for k in range(nr_from)]
    unknown = join if nr_from > 1 else draw.choice([None, *range(len(cut))])
    rule["cut"] = [None if a == unknown else n for a, n in enumerate(cut)]
    rule.update(dim=dim, join=join, order=order)
    if take:
        rule["take"] = take
    if rows:
        rule.update(unstack="n", to=f"t{nr}.{{n}}")
    for row in range(rows or 1):
        made = []
        for whole, own in pieces:
            one = whole.part(0, row, row + 1).reshaped(whole.shape[1:]) if rows else whole
            one = one.reshaped(one.shape[:dim] + own + one.shape[dim + 1 :])
            made.append(one.part(dim + take[0], take[1], take[2]) if take else one)
        one = joined(made, dim + join)
        axes = list(range(dim)) + [dim + axis for axis in order]
        one = one.ordered(axes + list(range(len(axes), len(one.shape))))
        length = math.prod(one.shape[dim : dim + len(cut)])
        one = one.reshaped(one.shape[:dim] + [length] + one.shape[dim + len(cut) :])
        wanted[f"t{nr}.{row}" if rows else f"t{nr}"] = one
    return rule


def chunk(length, parts, nr):
    each = -(-length // parts)
    return min(length, each * nr), min(length, each * (nr + 1))


def random_layout(draw, arrays):
    """The layout, the numbers of ranks, and what each rank has."""
    tp, pp, dp = (draw.randrange(1, 4) for _ in range(3))
    rules = []
    layers = {}
    for name, one in arrays.items():
        rule = {"match": name}
        axes = [d for d, length in enumerate(one.shape) if length % tp == 0]
        if axes and draw.random() < 0.7:
            rule["tp"] = draw.choice(axes)
        if one.shape and draw.random() < 0.5:
            rule["dp"] = draw.randrange(len(one.shape))
        stage = draw.choice([None, "first", "last", "layer"])
        number = next((part for part in name.split(".") if part.isdigit()), None)
        if stage and (stage != "layer" or number):
            rule["pp"] = stage
            if stage == "layer":
                layers[name] = int(number)
        rules.append(rule)
    nr_layers = max(layers.values(), default=0) + 1
    pp = 1 if nr_layers % pp else pp
    ranks = []
    for rank in range(tp * pp * dp):
        mine = {}
        for rule in rules:
            name = rule["match"]
            stage = {
                "first": 0,
                "last": pp - 1,
                "layer": layers.get(name, 0) * pp // nr_layers,
                None: rank // tp // dp,
            }[rule.get("pp")]
            if stage != rank // tp // dp:
                continue
            one = arrays[name]
            if "tp" in rule:
                one = one.part(rule["tp"], *chunk(one.shape[rule["tp"]], tp, rank % tp))
            if "dp" in rule:
                one = one.part(rule["dp"], *chunk(one.shape[rule["dp"]], dp, rank // tp % dp))
            mine[name] = one
        ranks.append(mine)
    draw.shuffle(rules)
    return {"tensors": rules}, f"tp={tp},pp={pp},dp={dp}", ranks


def try_seed(seed):
    draw = random.Random(seed)
    arrays, wanted = {}, {}
    rules = [random_rule(draw, nr, arrays, wanted) for nr in range(draw.randrange(1, 6))]
    shutil.rmtree("unit", ignore_errors=True)
    os.mkdir("unit")
    save("unit/model.safetensors", arrays)
    put("unit/m.json", {"tensors": rules})
    export("unit", "map=m")
    same(read("out/model.safetensors"), wanted)
    layout, ranks, slices = random_layout(draw, wanted)
    put("unit/l.json", layout)
    export("unit", f"map=m,layout=l,{ranks}")
    assert len(os.listdir("out")) == len(slices)
    for rank, mine in enumerate(slices):
        same(read(f"out/rank-{rank:05}.safetensors"), mine)
    export("unit", f"map=m,dcp,n={draw.randrange(1, 5)}", "dcp")
    export("dcp", "safetensors")
    same(read("out/model.safetensors"), wanted)


for number in range(FIRST, FIRST + SEEDS):
    try:
        try_seed(number)
    except BaseException:
        print(f"seed {number}", flush=True)
        raise

# Where they are found: the nearest, above the checkpoint too; then what is built in.
one = Array([4, 3], range(12))
os.makedirs("run/step-1")
save("run/step-1/model.safetensors", {"a.7.w": one, "b": Array([], [5])})
put("m2.json", {"tensors": [{"from": "a.{n}.w", "to": "x.{n}"}, {"from": "b", "to": "y"}]})
export("run/step-1", "map=m2")
same(read("out/model.safetensors"), {"x.7": one, "y": Array([], [5])})
put(
    "run/m2.json",
    {
        "numbers": {"half": "full / 2", "full": 4},
        "tensors": [
            {"from": "a.{n}.w", "to": "z{n}", "cut": ["half", None], "take": [0, 1, "half"]}
        ],
        "drop": ["b"],
    },
)
export("run/step-1", "map=m2")
same(read("out/model.safetensors"), {"z7": one.part(0, 2, 4)})
put("run/step-1/config.json", {"full": 2, "half": None})
assert "a length" not in export("run/step-1", "map=m2", status=1)
os.mkdir("run/llm")
put("run/llm/config.json", {"half": 4})
put("run/llm/tokenizer.json", "{}")
assert "cannot be cut" not in export("run/step-1", "map=m2,assets=llm")
same(read("out/model.safetensors"), {"z7": one.part(0, 1, 4)})
assert sorted(os.listdir("out")) == ["config.json", "model.safetensors", "tokenizer.json"]
export("run/step-1", "map=m2,assets=llm,only=nothing", status=1)
export("run/step-1", "assets=lm", status=1)

# What is wrong with them is said.
RULE = {"from": "a.{n}.w", "to": "x"}
for text, why in (
    ("", "line 1"),
    ("[]", "no object"),
    ("{}", "no list of 1 to 256 rules"),
    ({"tensors": [1]}, "rule 1: it is no object"),
    ({"tensors": [dict(RULE, form="a")]}, "another word"),
    ({"tensors": [{"to": "x"}]}, "from is no name"),
    ({"tensors": [{"from": "x"}]}, "to is no name"),
    ({"tensors": [{"from": "a{", "to": "x"}]}, "a '{' in from"),
    ({"tensors": [{"from": "a", "to": "{}"}]}, "a '{' in to"),
    ({"tensors": [dict(RULE, to="{m}")]}, "a word of to is not in from"),
    ({"tensors": [dict(RULE, cut=[])]}, "no list of 1 to 8"),
    ({"tensors": [dict(RULE, cut=[None, None])]}, "more than one null"),
    ({"tensors": [dict(RULE, cut=[2, 2], order=[0])]}, "order does not have the axes"),
    ({"tensors": [dict(RULE, cut=[2, 2], order=[1, 1])]}, "each axis of cut once"),
    ({"tensors": [dict(RULE, take=[1, 2])]}, "take is not"),
    ({"tensors": [dict(RULE, take=[1, 0, 1])]}, "take has no axis"),
    ({"tensors": [dict(RULE, join=1)]}, "join is no axis"),
    ({"tensors": [dict(RULE, dim=-1)]}, "dim is no axis"),
    ({"tensors": [dict(RULE, unstack="")]}, "unstack is no word"),
    ({"tensors": [dict(RULE, dim=2)]}, "x: the map bad, rule 1: it has no such dim"),
    ({"tensors": [dict(RULE, cut=[3, None])]}, "its length 4 cannot be cut"),
    ({"tensors": [dict(RULE, cut=[2, 3])]}, "its length 4 cannot be cut"),
    ({"tensors": [dict(RULE, take=[0, 3, 9])]}, "takes 3 to 9 of an axis that has 4"),
    ({"tensors": [dict(RULE, cut=["heads", None])]}, "'heads' is neither in config.json"),
    ({"tensors": [dict(RULE, cut=["3 / 2", None])]}, "leaves a rest"),
    ({"tensors": [dict(RULE, cut=["1 - 2", None])]}, "below 0"),
    ({"tensors": [dict(RULE, cut=["2 x", None])]}, "'x' is too much"),
    ({"tensors": [dict(RULE, cut=["*", None])]}, "is no number"),
    ({"tensors": [dict(RULE, **{"from": ["a.{n}.w", "c"]})]}, "there is no 'c'"),
    ({"tensors": [dict(RULE, **{"from": ["a.{n}.w", "b"]})]}, "other types or lengths"),
    ({"tensors": [{"from": "b", "to": "x", "unstack": "n"}]}, "no axis to unstack"),
    ({"tensors": [RULE]}, "b: no rule of the map bad has it"),
    ({"tensors": [dict(RULE, cut=[2.0, None])]}, "a number is 8, or a text"),
    ({"tensors": [{"from": "b", "to": "x", "take": [0, 0, 1]}]}, "no axis that could be cut"),
    ({"tensors": [dict(RULE, to="__metadata__")]}, "keeps that name for itself"),
    ({"tensors": [RULE], "dorp": []}, "another word than tensors, numbers"),
    ({"tensors": [RULE], "drop": "b"}, "drop is no list"),
    ({"tensors": [RULE], "numbers": [1]}, "numbers is no object"),
    ({"tensors": [dict(RULE, to="x" * 1100)]}, "is longer than 1023"),
    ({"tensors": [RULE, {"from": "b", "to": "x"}]}, "2 tensors have this name"),
):
    put("bad.json", text)
    said = export("run/step-1", "map=bad", status=1)
    assert why in said, (text, said)
# Of a target that only= asks for, a source is missing.
put("bad.json", {"tensors": [{"from": ["a.7.w", "c"], "to": "t.x"}, {"from": "b", "to": "t.z"}]})
assert "t.x: the map bad" in export("run/step-1", "map=bad,only=t.*", status=1)
# What the map does not use is no matter. An unusable config.json is none until a number is wanted.
put("run/step-1/config.json", '{"a": NaN, "a": 1}')
put("bad.json", {"tensors": [RULE], "drop": ["b"]})
export("run/step-1", "map=bad")
put("bad.json", {"tensors": [dict(RULE, cut=["a", None])], "drop": ["b"]})
assert "'a' is neither in config.json" in export("run/step-1", "map=bad", status=1)
put("run/step-1/config.json", {})
# What would take for ever, or all memory, is refused.
os.mkdir("hostile")
save("hostile/model.safetensors", {"a" * 200: one, "b": one})
put("bad.json", {"tensors": [{"from": "{a}{b}{c}{d}{e}{f}{g}{h}.X", "to": "x"}], "drop": ["*"]})
export("hostile", "map=bad", status=1)
header = b'{"a":{"dtype":"U8","shape":[1099511627776,0],"data_offsets":[0,0]}}'
with open("hostile/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
for more in ({}, {"dim": 3}, {"from": ["a"] * 64}):
    put("bad.json", {"tensors": [{"from": "a", "to": "x.{n}", "unstack": "n"} | more]})
    assert "makes too many tensors" in export("hostile", "map=bad,only=b", status=1)
# A transposition inside a row reads each row once, not each element.
big = Array([64, 4096], range(64 * 4096))
shutil.rmtree("unit")
os.mkdir("unit")
save("unit/model.safetensors", {"w": big})
put(
    "unit/m.json",
    {"tensors": [{"from": "w", "to": "w", "dim": 1, "cut": [64, None], "order": [1, 0]}]},
)
export("unit", "map=m")
turned = read("out/model.safetensors")["w"]
assert all(
    turned.at((5, a * 64 + b)) == big.at((5, b * 64 + a)) for a in range(64) for b in range(64)
)

assert "there is no map nowhere.json" in export("run/step-1", "map=nowhere", status=1)
assert "megatron-llama" in export("run/step-1", "map=nowhere", status=1)
for text, why in (
    ({}, "no list of 1 to 256 rules"),
    ({"tensors": [{"tp": 0}]}, "no object with a match"),
    ({"tensors": [{"match": "*", "tq": 0}]}, "another word"),
    ({"tensors": [{"match": "*", "tp": -1}]}, "tp or dp is no axis"),
    ({"tensors": [{"match": "*", "pp": "middle"}]}, "pp is not layer"),
    ({"tensors": [{"match": "a*"}]}, "b: the layout bad: no rule has it"),
    ({"tensors": [{"match": "*", "tp": 0}]}, "b: the layout bad: it has no such axis"),
    ({"tensors": [{"match": "*", "pp": "layer"}]}, "has no number of a layer"),
    ({"tensors": [{"match": "a*", "tp": 1}, {"match": "b"}]}, "cannot share its axis equally"),
    ({"tensors": [{"match": "a*", "tp": 0, "of": 1}]}, "cannot share the parts of its axis"),
    ({"tensors": [{"match": "a*", "tp": 0, "of": "x"}]}, "'x' is neither in config.json"),
):
    put("bad.json", text)
    said = export("run/step-1", "layout=bad,tp=2", status=1)
    assert why in said, (text, said)
for spec, why in (
    ("tp=2", "layout= says who has what"),
    ("npy,max=5G", "max= is not for npy"),
    ("npy,layout=llama", "layout= is for safetensors"),
    ("layout=llama,max=1G", "max= is not for layout="),
    ("layout=llama,tp=0", "no number from 1 to 4096"),
    ("layout=llama,tp=4096,dp=2", "more than 4096"),
    ("map=.x", "no name of a file"),
    ("n=2", "n= is for dcp"),
    ("npy,dcp", "'dcp' is a second form"),
    ("max=1,max=2", "max= is given twice"),
):
    assert why in export("run/step-1", spec, status=1), spec

# NumPy: a file for each, with its type and shape.
save("run/step-1/model.safetensors", {"a/b": one, "s": Array([], [7]), "v": Array([2], [1, 2])})
export("run/step-1", "npy")
assert sorted(os.listdir("out")) == ["a%2Fb.npy", "config.json", "s.npy", "v.npy"]
for name, shape, values in (("a%2Fb", (4, 3), range(12)), ("s", (), [7]), ("v", (2,), [1, 2])):
    with open(f"out/{name}.npy", "rb") as file:
        assert file.read(8) == b"\x93NUMPY\x01\x00"
        (size,) = struct.unpack("<H", file.read(2))
        assert (size + 10) % 64 == 0
        header = file.read(size)
        data = file.read()
    assert header.endswith(b"\n")
    assert ast.literal_eval(header.decode()) == {
        "descr": "<u4",
        "fortran_order": False,
        "shape": shape,
    }
    assert data == struct.pack(f"<{len(values)}I", *values)
