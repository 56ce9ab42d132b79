# SPDX-License-Identifier: MIT
"""What the programs of tests/presets have in common: jobs whose ranks are processes of their own
(player.py), and what is known of a unit at each step of theirs. What a file is written with depends
on its path in the unit and a seed."""

import atexit

from units import *

_PLAYER = os.path.join(os.environ["SRC"], "tests/presets/player.py")
_jobs = 0


class Rank:
    """One process. rank None: without one; then its session is its job. Its calls are those of
    player.py; paths are below the mount. @more: of its environment."""

    def __init__(self, rank=None, world=None, port=0, session=False, more=()):
        env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        if rank is not None:
            env.update(
                RANK=str(rank),
                WORLD_SIZE=str(world),
                LOCAL_RANK=str(rank),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                **dict(more),
            )
        self.rank = rank
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-s", _PLAYER],
            env=env,
            cwd=mnt,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=session,
        )
        atexit.register(self.end)

    def end(self):
        """Where that was not told to, it exits when the program does: else the mount would still be
        in use by it."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(20)

    def tell(self, call, *args):
        self.process.stdin.write(json.dumps([call, *args]) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def __getattr__(self, call):
        def do(*args):
            self.tell(call, *args)
            error = self.answer()
            assert error is None, (self.rank, call, args, errno.errorcode[error])

        return do

    def fails(self, error, call, *args):
        self.tell(call, *args)
        got = self.answer()
        assert got == error, (got, "not", error)

    def exit(self, code=0):
        self.tell("exit", code)
        assert self.process.wait(20) == code

    def kill(self):
        self.process.kill()
        assert self.process.wait(20) == -signal.SIGKILL


class Job:
    """Its ranks. `with` it: at the end of that all have exited well."""

    def __init__(self, world, **more):
        global _jobs
        _jobs += 1
        self.ranks = [Rank(rank, world, 29500 + _jobs, more=more) for rank in range(world)]

    def __getitem__(self, rank):
        return self.ranks[rank]

    def __iter__(self):
        return iter(self.ranks)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.exit()


def state(unit):
    """What status says of a unit that has not ended; {} if there is none."""
    for one in status()["pending"]:
        if one["path"] == unit:
            return one
    return {}


def open_for(unit, missing, rule=None):
    """It waits for that evidence; nothing of it is on the backing, and all of it is in the
    mount."""
    now = state(unit)
    assert now.get("state") == "open" and missing in now["waits_for"], now
    assert rule in (None, now["rule"]), now
    assert os.path.isdir(mnt + "/" + unit), "not in the mount"
    absent(unit)


def absent(unit):
    assert not os.path.lexists(back + "/" + unit), "on the backing: " + unit


def ordinary(path):
    """On the backing, the same as in the mount."""
    assert read(back + "/" + path) == read(mnt + "/" + path)


def tree(directory):
    """{path: content} of all that is in it, but for the index, which comes after the commit."""
    found = {}
    for top, dirs, files in os.walk(directory):
        for name in files + [name for name in dirs if os.path.islink(top + "/" + name)]:
            path = top + "/" + name
            rel = os.path.relpath(path, directory)
            if rel == ".ckptfs-index.json":
                continue
            found[rel] = os.readlink(path) if os.path.islink(path) else read(path)
    return found


def commit_file(unit):
    with open(back + "/" + unit + "/.ckptfs-commit.json", encoding="utf-8") as file:
        return json.load(file)


def committed(unit, done, files=None, ranks=None):
    """Waits for its commit, which that evidence has led to: those files, the same in the mount and
    on the backing, as its commit file says."""
    code, told = ckptfs("wait", "--timeout", "15", mnt + "/" + unit)
    assert code == 0, (told, state(unit))
    return whole(unit, done, files, ranks)


def whole(unit, done, files=None, ranks=None):
    """What has the name on the backing and in the mount is a unit that was committed so."""
    was = commit_file(unit)
    assert was["done"] in (done if isinstance(done, tuple) else (done,)), was["done"]
    assert was["unit"] == unit, was["unit"]
    assert ranks in (None, was["world"]["ranks"]), was["world"]
    seen, landed = tree(mnt + "/" + unit), tree(back + "/" + unit)
    assert ".ckptfs-commit.json" in landed
    # What ckptfs keeps there is not seen; the index comes after the commit.
    landed = {name: text for name, text in landed.items() if not name.startswith(".ckptfs-")}
    assert seen == landed
    listed = sorted(f["path"] for f in was["files"])
    assert listed == sorted(landed), (listed, sorted(landed))
    assert files is None or listed == sorted(files), (listed, sorted(files))
    verify(back + "/" + unit)
    return was


def failed(unit, why="killed by signal 9"):
    """Waits until it has failed; it has no name on the backing, and none in the mount."""
    wait(lambda: not state(unit))
    assert any(f["path"] == unit and why in f["message"] for f in failures()), failures()
    absent(unit)
    assert not os.path.exists(mnt + "/" + unit), "still shown"
