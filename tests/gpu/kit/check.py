# SPDX-License-Identifier: MIT
"""What libckptfs does on this machine's GPU: facts, correctness with negative controls, numbers
against the targets.

    check.py --kit DIR [--out FILE] [--seconds N] [--bytes N] [--rounds N] [--kills N]
             [--device cuda|cpu] [--only PART ...]
    check.py --table FILE

DIR is what `make` puts into build/gpu-kit: nothing else is needed but Python, and what it cannot do
here (no FUSE, no PyTorch, no time) is said. The parts come in the order of their worth, and FILE
(JSON) is written after each of them; --table prints it for people, as Markdown. All parts together
take --seconds at most. On the fake driver (tests/fakecuda) all runs but what needs PyTorch; with
--device cpu that runs on the host, with a driver or without. Numbers mean nothing then. Status 0:
all that ran is right and the targets are met; 1: not so; 77: there is no GPU.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
SKIPPED = 77
ROOM_S = 5  # before the end no part begins
STEPS, ELEMENTS = 20, 100000
FILES = "__0_0.distcp", "__0_1.distcp"  # of a checkpoint of the trainer


class Check:
    def __init__(self, args):
        self.args = args
        self.begin = time.monotonic()
        self.found = {"parts": {}}
        self.ok = True
        self.scratch = tempfile.mkdtemp(prefix="ckptfs-gpu-", dir=args.dir)
        libraries = os.environ.get("LD_LIBRARY_PATH", "")
        self.env = dict(
            os.environ,
            LD_LIBRARY_PATH=f"{libraries}:{args.kit}",
            CKPTFS_RUN_DIR=os.path.join(self.scratch, "run"),
            RANK="0",
            WORLD_SIZE="1",
        )
        os.makedirs(self.env["CKPTFS_RUN_DIR"])

    def tool(self, name):
        return os.path.join(self.args.kit, name)

    def left(self):
        return self.args.seconds - (time.monotonic() - self.begin)

    def run(self, *command, timeout=300):
        """(status, what it printed, its errors); status 124: it took too long."""
        timeout = min(timeout, max(self.left(), ROOM_S))
        try:
            done = subprocess.run(
                command, env=self.env, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            return 124, str(error.stdout), f"took more than {timeout:.0f} s"
        except OSError as error:
            return 126, "", str(error)
        return done.returncode, done.stdout, done.stderr

    def say(self, part, result):
        self.found["parts"][part] = result
        verdict = "skipped" if "skipped" in result else "ok" if result.get("ok") else "FAILED"
        self.ok = self.ok and verdict != "FAILED"
        print(f"{verdict:8}{part}: {result.get('skipped') or result.get('text', '')}", flush=True)
        self.write()

    def write(self):
        if self.args.out:
            with open(self.args.out + ".new", "w", encoding="utf-8") as file:
                json.dump(self.found, file, indent=1)
            os.rename(self.args.out + ".new", self.args.out)


# --- parts ---


def host(check):
    _, gpus, _ = (
        check.run("nvidia-smi", "-L", timeout=60)
        if shutil.which("nvidia-smi")
        else (1, "no nvidia-smi", "")
    )
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "ok": True,
        "text": f"Linux {platform.release()}, {os.cpu_count()} CPUs, {gpus.strip()}",
        "fuse": os.path.exists("/dev/fuse"),
        "memlock": limit,
        "machine": platform.machine(),
    }


def is_fake(check):
    return check.found["parts"].get("conformance", {}).get("fake")


def conformance(check):
    status, out, errors = check.run(check.tool("conformance"), "--json")
    if status == SKIPPED:
        return {"skipped": out.strip()}
    try:
        said = json.loads(out)
    except ValueError:
        return {"ok": False, "text": f"status {status}: {errors}"}
    wrong = [one for one in said["assertions"] if one["verdict"] == "FAIL"]
    return {
        "ok": status == 0,
        "fake": said["fake"],
        "driver": said["driver"],
        "wrong": wrong,
        "text": f"{said['passed']} of what is expected of a driver, {said['failed']} not: "
        + "; ".join(one["name"] for one in wrong),
    }


def capture(check):
    status, out, errors = check.run(
        check.tool("capture"), str(check.args.bytes), str(check.args.rounds), timeout=480
    )
    if status == SKIPPED:
        return {"skipped": out.strip()}
    try:
        said = json.loads(out)
    except ValueError:
        return {"ok": False, "text": f"status {status}: {errors or out}"}
    wrong = [one["case"] for one in said["cases"] if not one["ok"]]
    shown = any(one["found"].endswith(": shown") for one in said["cases"])
    return {
        "ok": status == 0 and shown,
        "found": said,
        "text": (
            f"{len(said['cases'])} cases, wrong: {wrong or 'none'}; "
            f"the control {'tears' if shown else 'TEARS NOTHING'}"
        ),
    }


class Mount:
    """A mount in the scratch directory; .why says why there is none."""

    def __init__(self, check, name, options="host_cache_size=256M"):
        self.check = check
        self.back, self.top = (
            os.path.join(check.scratch, f"{kind}-{name}") for kind in ("back", "mnt")
        )
        os.makedirs(self.back)
        os.makedirs(self.top)
        self.why = None
        if not os.path.exists("/dev/fuse"):
            self.why = "this machine has no FUSE"
            return
        status, out, errors = check.run(
            check.tool("ckptfs"), "mount", "-o", options, self.back, self.top, timeout=60
        )
        if status:
            self.why = f"it cannot be mounted: {(errors or out).strip()}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.why is None:
            self.check.run(self.check.tool("ckptfs"), "umount", self.top, timeout=120)

    def committed(self):
        return [
            name
            for name in os.listdir(self.back)
            if os.path.exists(os.path.join(self.back, name, ".ckptfs-commit.json"))
        ]

    def daemon(self):
        with open(os.path.join(self.top, ".ckptfs", "status.json"), encoding="utf-8") as file:
            return json.load(file)["pid"]


def train(check, directory, *options, steps=STEPS, elements=ELEMENTS):
    return check.run(
        check.tool("trainer"),
        "--device",
        "cuda",
        "--elements",
        str(elements),
        "--steps",
        str(steps),
        *options,
        directory,
        timeout=240,
    )


def weights(out):
    return out.strip().splitlines()[-1] if out.strip() else ""


def plain_run(check, *options, steps=STEPS, elements=ELEMENTS):
    """What an uninterrupted run on a plain directory, on the host, ends with; and the directory."""
    directory = tempfile.mkdtemp(prefix="plain-", dir=check.scratch)
    _, out, _ = check.run(
        check.tool("trainer"),
        "--plain",
        "--elements",
        str(elements),
        "--steps",
        str(steps),
        *options,
        directory,
    )
    return weights(out), directory


def differing(mount, plain):
    """Files of committed checkpoints that are not what the plain run had."""
    wrong = []
    for unit in mount.committed():
        for name in FILES:
            with (
                open(os.path.join(mount.back, unit, name), "rb") as one,
                open(os.path.join(plain, unit, name), "rb") as two,
            ):
                if one.read() != two.read():
                    wrong.append(f"{unit}/{name}")
    return wrong


def trainer(check):
    expected, _ = plain_run(check, "--keep", "2")
    with Mount(check, "trainer") as mount:
        if mount.why:
            return {"skipped": mount.why}
        killed = 0
        for _ in range(check.args.kills):
            with subprocess.Popen(
                [
                    check.tool("trainer"),
                    "--device",
                    "cuda",
                    "--elements",
                    str(ELEMENTS),
                    "--steps",
                    str(STEPS),
                    "--keep",
                    "2",
                    mount.top,
                ],
                env=check.env,
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                while line := process.stdout.readline():
                    if line.startswith("saved"):
                        break
                time.sleep(random.random() * 0.3)  # an instant that nothing tells
                killed += process.poll() is None
                process.kill()
        status, out, errors = train(check, mount.top, "--keep", "2")
        if status:
            return {"ok": False, "text": f"status {status}: {errors}"}
        right = weights(out) == expected
        return {
            "ok": right,
            "kills": killed,
            "text": (
                f"killed {killed} times, it ends with {'the' if right else 'OTHER'} weights "
                f"{'of' if right else 'than'} the host's run"
            ),
        }


def no_barrier(check):
    _, plain = plain_run(check, steps=8)
    with Mount(check, "no-barrier", "host_cache_size=64M") as mount:
        if mount.why:
            return {"skipped": mount.why}
        status, _, errors = train(check, mount.top, "--no-barrier", steps=8)
    wrong = differing(mount, plain)
    told = errors.count("is not saved")
    return {
        "ok": status in (0, 1) and not wrong,
        "wrong": wrong,
        "text": (
            f"{len(mount.committed())} of 8 committed without the barrier, {len(wrong)} wrong; "
            f"the trainer was told {told} times"
        ),
    }


def daemon_memory(check):
    """The daemon uses no GPU: none of the driver's files is open, or mapped, in it while a trainer
    saves."""
    with Mount(check, "daemon") as mount:
        if mount.why:
            return {"skipped": mount.why}
        pid = mount.daemon()
        status, _, errors = train(check, mount.top, steps=4)
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            maps = [line for line in file if "libcuda" in line or "/dev/nvidia" in line]
        files = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                files.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        files = [path for path in files if path.startswith("/dev/nvidia")]
        return {
            "ok": status == 0 and not maps and not files,
            "maps": maps,
            "files": files,
            "text": (
                f"the daemon has {len(maps)} mappings and {len(files)} files of the GPU's driver "
                f"{errors}"
            ),
        }


def four_times(check):
    """A state that is four times what the mount lends, which is half of its cache."""
    elements, keep = 10000000, ("--keep", "2")
    _, plain = plain_run(check, *keep, steps=4, elements=elements)
    size = sum(os.path.getsize(os.path.join(plain, "step-4", name)) for name in FILES)
    with Mount(check, "four-times", f"host_cache_size={size >> 21}M") as mount:
        if mount.why:
            return {"skipped": mount.why}
        status, _, errors = train(check, mount.top, *keep, steps=4, elements=elements)
    wrong, committed = differing(mount, plain), len(mount.committed())
    return {
        "ok": status == 0 and committed == 2 and not wrong,
        "wrong": wrong,
        "text": f"{committed} of 2 committed, {len(wrong)} wrong {errors}",
    }


def pytorch(check, program, cache, *options):
    """What a program of the kit that needs PyTorch says; or what to say instead."""
    if check.args.device == "cuda" and is_fake(check):
        return None, {"skipped": "PyTorch does not run on the fake driver"}
    command = [
        *(sys.executable, os.path.join(HERE, program), "--kit", check.args.kit),
        *("--dir", check.scratch, "--device", check.args.device, *options),
    ]
    with Mount(check, program[:-3], f"host_cache_size={cache}") as mount:
        if mount.why is None:
            command += ["--mount", mount.top]
        status, out, errors = check.run(*command)
    try:
        said = json.loads(out)
    except ValueError:
        return status, {"ok": False, "text": f"status {status}: {errors[-2000:]}"}
    return (None, said) if status == SKIPPED else (status, said)


def modes(check):
    options = ("--params", "1e5", "--steps", "2") if check.args.device == "cpu" else ()
    status, said = pytorch(check, "modes.py", "1G", *options)
    if "modes" not in said:
        return said
    return {
        "ok": status == 0,
        "found": said,
        "text": "; ".join(f"{name}: {verdict_of(one)}" for name, one in said["modes"].items()),
    }


def verdict_of(mode):
    if "wrong_bytes" not in mode:
        return mode.get("skipped") or "FAILED: " + mode["error"].splitlines()[-1]
    return f"{mode['saves']} saves, {mode['wrong_bytes']} wrong bytes"


def side_by_side(check):
    options = (
        ("--params", "1e5", "--step-seconds", "0.05", "--batch", "64")
        if check.args.device == "cpu"
        else ("--params", str(check.args.params), "--step-seconds", "1", "--steps", "4")
    )
    status, said = pytorch(check, "side_by_side.py", check.args.cache, *options)
    if "ways" not in said:
        return said
    return {
        "ok": status == 0,
        "found": said,
        "text": f"{said['state_bytes'] / 1e9:.1f} GB of state, "
        f"daemon: {said['daemon']}, {said['wrong_bytes']} wrong bytes, "
        + ", ".join(
            f"{name} {way.get('blocked_s', 0) * 1e3:.1f} ms" for name, way in said["ways"].items()
        ),
    }


PARTS = {
    "host": host,
    "conformance": conformance,
    "capture": capture,
    "trainer": trainer,
    "no_barrier": no_barrier,
    "daemon_memory": daemon_memory,
    "four_times": four_times,
    "side_by_side": side_by_side,
    "modes": modes,
}
WITHOUT_DRIVER = ("host", "conformance", "side_by_side", "modes")


# --- targets ---


def targets(parts):
    """(what, measured or None, bound, whether that is the least)"""
    numbers = parts.get("capture", {}).get("found", {})
    side = parts.get("side_by_side", {}).get("found", {}).get("ratios", {})
    return [
        (
            "capture, of the pinned copy's peak",
            numbers.get("capture_of_peak", {}).get("value"),
            0.9,
            True,
        ),
        ("step time while captured, of without", side.get("step_inflation"), 1.03, False),
        ("blocked, of torch.save", side.get("blocked_of_torch_save"), 0.05, False),
        ("blocked, of DCP async_save", side.get("blocked_of_async_save"), 0.25, False),
    ]


def judge(check):
    untrue = (
        "on the fake driver"
        if is_fake(check)
        else "on the CPU"
        if check.args.device == "cpu"
        else None
    )
    check.found["targets"] = []
    for what, measured, bound, least in targets(check.found["parts"]):
        met = measured is not None and (measured >= bound if least else measured <= bound)
        verdict = (
            "not measured"
            if measured is None
            else f"{untrue}, means nothing"
            if untrue
            else "met"
            if met
            else "MISSED"
        )
        check.ok = check.ok and verdict != "MISSED"
        check.found["targets"].append(
            {"what": what, "measured": measured, "bound": bound, "verdict": verdict}
        )
        shown = "-" if measured is None else f"{measured:.3f}x"
        print(f"target  {what}: {shown}, {'at least' if least else 'at most'} {bound}x: {verdict}")
    check.found["ok"] = check.ok
    check.write()


# --- the table for people ---


def cell(value):
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def rows_of(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(cell, line)) + " |" for line in lines] + [""]


def table(found):
    """Of what a run has found: for RESULTS.md."""
    parts = found["parts"]
    numbers = parts.get("capture", {}).get("found", {})
    side = parts.get("side_by_side", {}).get("found", {})
    kinds = parts.get("modes", {}).get("found", {})
    lines = [
        f"{parts.get('host', {}).get('text', '')}; driver "
        f"{parts.get('conformance', {}).get('driver', '-')}, PyTorch {side.get('torch', '-')}; "
        f"{found.get('seconds', 0):.0f} s in all.",
        "",
    ]
    lines += rows_of(
        ["target", "measured", "bound", ""],
        [
            [one["what"], one["measured"], one["bound"], one["verdict"]]
            for one in found.get("targets", [])
        ],
    )
    lines += rows_of(
        ["part", "", "found"],
        [
            [
                name,
                "skipped" if "skipped" in part else "ok" if part.get("ok") else "FAILED",
                " ".join((part.get("skipped") or part.get("text", "")).replace("|", "/").split()),
            ]
            for name, part in parts.items()
        ],
    )
    values = {name: one for name, one in numbers.items() if isinstance(one, dict)}
    if values:
        lines += rows_of(
            ["without a framework", "", "unit"],
            [[name.replace("_", " "), one["value"], one["unit"]] for name, one in values.items()],
        )
    if side:
        lines += rows_of(
            [f"saves of {side['state_bytes'] / 1e9:.2f} GB", "step, s", "blocked, s", "first, s"],
            [
                [name, *(way.get(key) for key in ("step_s", "blocked_s", "first_save_s"))]
                for name, way in side["ways"].items()
            ],
        )
    if kinds:
        lines += rows_of(
            ["mode", "tensors", "MB", "step, s", "with a save, s", "found"],
            [
                [
                    name,
                    one.get("tensors"),
                    one["bytes"] / 1e6 if "bytes" in one else None,
                    one.get("step_s"),
                    one.get("step_with_save_s"),
                    verdict_of(one).replace("|", "/"),
                ]
                for name, one in kinds["modes"].items()
            ],
        )
    return lines


def run_parts(check):
    lacks = None  # what says why there is no driver
    for name, part in PARTS.items():
        if check.args.only and name not in check.args.only and name != "conformance":
            continue
        if check.left() < ROOM_S:
            check.say(name, {"skipped": "the time is up"})
            continue
        check.say(name, lacks if lacks and name not in WITHOUT_DRIVER else part(check))
        if name == "conformance" and "skipped" in check.found["parts"][name]:
            lacks = check.found["parts"][name]
            if check.args.device == "cuda":
                print("skipped: there is no GPU here, " + lacks["skipped"])
                return SKIPPED
    check.found["seconds"] = time.monotonic() - check.begin
    judge(check)
    return 0 if check.ok else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kit")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=460)
    parser.add_argument("--out")
    parser.add_argument("--dir", help="where mounts and files of it go; they are removed")
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--params", type=float, default=1e9)
    parser.add_argument("--cache", default="16G")
    parser.add_argument("--only", nargs="*", choices=list(PARTS))
    args = parser.parse_args()
    if args.table:
        with open(args.table, encoding="utf-8") as file:
            print("\n".join(table(json.load(file))))
        return 0
    if not args.kit:
        parser.error("--kit or --table is needed")
    args.kit = os.path.realpath(args.kit)
    check = Check(args)
    try:
        return run_parts(check)
    finally:
        shutil.rmtree(check.scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
