# SPDX-License-Identifier: MIT
"""What every framework goes through: an uninterrupted run on a plain directory, which says what is
right; the same on a mount, watched after each save; and runs that are killed and taken up again."""

import json
import os
import random
import shutil
import time

from . import environment, switches
from .digest import digest
from .framework import newest
from .jobs import Job, elsewhere, import_all
from .mount import Mount, ckptfs, must, wait
from .record import record

SEED = int(os.environ.get("CKPTFS_TEST_SEED") or random.randrange(1 << 30))
CONFIG = {"host_cache_size": "64M", "flush_bw": "100M", "quiet_s": 1, "commit_timeout_s": 10}
RUN_SECONDS = 120


def say(*words):
    print(f"{time.monotonic() - _BEGAN:7.2f}", *words, flush=True)


_BEGAN = time.monotonic()


class Watch:
    kinds = ("rank", "job", "daemon")
    kills_each = int(os.environ.get("CKPTFS_TEST_KILLS") or 20)

    def __init__(self, framework):
        self.fw = framework
        self.tmp = os.environ["TEST_TMP"]
        self.right = {}  # step -> digest of the state that is to be saved then
        self.outcome = None  # digest of the state at the end
        self.names = []  # what is in the plain directory at the end
        self.mounts = []  # of one backing
        self.interval = 0.0  # seconds from one save to the next, on the mount
        self.killed = dict.fromkeys(self.kinds, 0)
        self.costs = {}  # of a save

    @property
    def mount(self):
        return self.mounts[0]

    def job(self, plain=None, **more):
        """On the mount, or in a plain directory."""
        return Job(self.fw, (plain or self.mount.mnt) + "/run", **self.args(**more))

    def settled(self, besides=None):
        for mount in self.mounts:
            if mount is not besides:
                mount.settled()

    def args(self, **more):
        return dict(steps=self.fw.steps, every=self.fw.every, **more)

    def check(self, reports):
        """Each rank has the state that it has on a plain directory."""
        for rank, report in reports:
            want = self.outcome if report["what"] == "ended" else self.right.get(report["step"])
            assert report.get("digest") in (None, want), (
                "another state than without interruption",
                rank,
                report,
            )

    # --- on a plain directory ---

    def plain(self):
        directory = self.tmp + "/plain/run"
        os.makedirs(directory)
        imported = self.tmp + "/imported"
        job = self.job(self.tmp + "/plain", imported=imported)
        codes = job.finish(RUN_SECONDS)
        assert not any(codes), (codes, job.logs())
        import_all(imported)
        for rank, report in job.told:
            if "digest" in report and report["what"] != "ended":
                assert (
                    self.right.setdefault(report["step"], report["digest"]) == report["digest"]
                ), ("ranks differ", rank)
            elif report["what"] == "ended":
                self.outcome = report["digest"]
        assert self.outcome and len(self.right) > self.fw.steps // self.fw.every
        self.names = self.tree(directory)
        assert len(self.fw.found(directory)) == self.fw.keep, self.fw.found(directory)
        self.loads(directory, newest(self.fw.found(directory)))

    def loads(self, directory, least):
        """Every checkpoint that is to be seen there is whole, and the newest is at least of that
        step."""
        found = self.fw.found(directory)
        assert newest(found) >= least, (
            directory,
            "the newest is of step",
            newest(found),
            "but there was",
            least,
        )
        states = elsewhere(self.digests, sorted(found.values()))
        for step, path in found.items():
            assert states[path] == self.right[step], path + " holds another state than was saved"
        named = self.fw.pointer(directory)
        assert named is None or named in found.values(), (named, "is named, but there is", found)

    def digests(self, paths):
        return {path: digest(self.fw.load(path)) for path in paths}

    def tree(self, directory):
        return sorted(set(map(self.fw.name_of, _plain(_tree(directory)))))

    # --- on the backing ---

    def steady(self, directory, look):
        """What @look returns. What a lost node was to remove is removed by another one, when the
        former is known to be dead. After a look that failed for that, there is another."""
        while True:
            before = self.fw.found(directory)
            try:
                return look()
            except (AssertionError, OSError):
                if self.fw.found(directory) == before:
                    raise

    def bare(self, least=0):
        """Nothing torn: what has a name was committed whole, and loads."""
        directory = self.mount.back + "/run"
        return self.steady(directory, lambda: self.whole(directory, least))

    def whole(self, directory, least):
        for path in self.fw.found(directory).values():
            code, told = ckptfs("verify", path)
            assert code == 0, told
            if not self.fw.files:
                self.reason(path)
        self.loads(directory, least)
        return newest(self.fw.found(directory))

    def reason(self, path):
        with open(path + "/.ckptfs-commit.json", encoding="utf-8") as file:
            commit = json.load(file)
        wanted = (self.fw.done,) if isinstance(self.fw.done, str) else self.fw.done
        assert commit["done"] in wanted, (path, commit["done"])
        assert commit["world"]["ranks"] == (self.fw.world or 1), (path, commit["world"])
        assert commit["world"]["nodes"] == len(self.mounts), (path, commit["world"])
        return commit["done"]

    # --- watched ---

    def watched(self):
        job = self.job(watched=True)
        waiting, before = 0, None
        while True:
            news = job.listen(RUN_SECONDS)
            if news is None:
                break
            assert news, "the job hangs\n" + job.logs()
            self.check(news)
            for _, report in news:
                if report["what"] != "saved":
                    continue
                waiting += 1
                if waiting == len(job.ranks):
                    waiting = 0
                    self.look(report["step"], before)
                    before = report["step"]
                    for process in job.ranks:
                        process.go_on()
        codes = job.finish(RUN_SECONDS)
        assert not any(codes), (codes, job.logs())
        self.settled()
        for mount in self.mounts:
            assert not mount.failures(), mount.failures()
        captured = {mount.mnt: int(mount.metric("captured_bytes_total")) for mount in self.mounts}
        lazily = self.mounts[:1] if self.fw.alone else self.mounts  # rank 0 is on the first
        for mount in lazily if self.fw.captured else ():
            assert captured[mount.mnt], ("nothing of it was lazy there", captured)
        say("captured, in bytes:", captured)
        assert self.bare() == self.fw.steps
        for mount in self.mounts:
            self.loads(mount.mnt + "/run", self.fw.steps)
        for directory in self.mount.back, *(mount.mnt for mount in self.mounts):
            names = self.tree(directory + "/run")
            assert names == self.names, (directory, names, self.names)

    def look(self, step, before):
        """Right after the save of that step, while the job does nothing."""
        if not self.fw.prompt:
            if before is not None:
                self.landed(before)
            if step == self.fw.steps:
                assert "quiet" in self.landed(step), (
                    "committed before anybody could know that it has ended"
                )
        else:
            self.landed(step)

    def landed(self, step):
        """Waits for the commit; by what it came."""
        for mount in self.mounts:
            must("wait", "--timeout", "30", self.fw.found(mount.mnt + "/run")[step])
        landed = self.fw.found(self.mount.back + "/run")[step]
        must("verify", landed)
        return "" if self.fw.files else self.reason(landed)

    def empty(self):
        """A new beginning."""
        run = self.mount.mnt + "/run"
        if os.path.isdir(run):
            try:
                shutil.rmtree(run)
            except OSError as error:
                raise AssertionError(
                    (os.listdir(run), os.listdir(self.mount.back + "/run"))
                ) from error
        os.makedirs(run)

    # --- killed ---

    def to_its_end(self):
        """On the mount, without anybody looking on. All that it has told."""
        job = self.job()
        codes = job.finish(RUN_SECONDS)
        assert not any(codes), (codes, job.logs())
        self.check(job.told)
        self.settled()
        assert self.bare() == self.fw.steps, [mount.failures() for mount in self.mounts]
        return job.told

    def timed(self):
        """How long the steps between two saves and a save take, of the run that is killed later."""
        at = [
            report["at"]
            for rank, report in self.to_its_end()
            if rank == 0 and report["what"] == "saving"
        ]
        self.interval = (at[-1] - at[0]) / (len(at) - 1)

    def strike(self, kind, job, alive, choose):
        """Kills what is to be killed; the mount that is dead then, or None."""
        if kind == "rank":
            job.kill(choose.choice(alive))
        elif kind == "job":
            job.kill_all()
        else:
            self.mount.kill()
            return self.mount
        return None

    def kill_once(self, kind, least, choose):
        """A run from where the last one was cut off, that is cut off itself. How far it is saved
        now; None: it came to its end."""
        first = elsewhere(self.fw.resumes, self.mount.mnt + "/run")
        job = self.job()
        left = max((self.fw.steps - first) // self.fw.every, 1)
        save, delay = choose.randrange(left), choose.random() * 1.3 * self.interval
        saves = 0
        while saves <= save:
            news = job.listen(RUN_SECONDS)
            if news is None:
                break
            assert news, "the job hangs\n" + job.logs()
            saves += sum(rank == 0 and report["what"] == "saving" for rank, report in news)
        end = time.monotonic() + delay
        while time.monotonic() < end and job.listen(end - time.monotonic()) is not None:
            pass
        alive = [process.rank for process in job.ranks if not process.reap(0)]
        over = not alive
        dead = None if over else self.strike(kind, job, alive, choose)
        codes = job.end(RUN_SECONDS if over else 5)
        self.check(job.told)
        assert over or any(codes) or any(report["what"] == "ended" for _, report in job.told), (
            codes,
            job.logs(),
        )
        begun = [report["step"] for _, report in job.told if report["what"] == "began"]
        assert set(begun) <= {first}, (begun, "but there was", first)
        if over:
            assert not any(codes), (codes, job.logs())
        if dead:
            self.settled(besides=dead)
            self.bare(least)
            dead.start()
        self.settled()
        now = self.bare(least)
        for mount in self.mounts:
            self.shows(mount, now)
        say(
            f"{kind:<6} at save {save + 1} of {left} + {delay:.3f} s, from step {first}: saved to "
            f"step {now}{', over before' if over else ''}"
        )
        self.killed[kind] += not over
        return None if over or now == self.fw.steps else now

    def shows(self, mount, now):
        """What is on the backing, of which @now is the newest."""
        wait(lambda: newest(self.fw.found(mount.mnt + "/run")) == now)
        self.steady(mount.mnt + "/run", lambda: self.shows_all(mount, now))

    def shows_all(self, mount, now):
        for path in () if self.fw.files else self.fw.found(mount.mnt + "/run").values():
            landed = mount.back + path[len(mount.mnt) :]
            wait(lambda path=path, landed=landed: _tree(path) == _plain(_tree(landed)))
        self.loads(mount.mnt + "/run", now)

    def kills(self, kind):
        choose = random.Random(f"{SEED} {kind}")
        done = None
        while self.killed[kind] < self.kills_each:
            if done is None:
                self.empty()
                done = 0
            done = self.kill_once(kind, done, choose)
        if done is not None:  # to its end
            self.to_its_end()

    def mount_all(self):
        self.mounts = [Mount({**CONFIG, **self.fw.config})]

    def all(self):
        self.plain()
        say("on a plain directory: saved", len(self.right) - 1, "times")
        self.mount_all()
        self.empty()
        self.watched()
        say("watched on the mount")
        self.switches()
        self.empty()
        self.timed()
        say(f"{self.interval:.3f} s from save to save")
        for kind in self.kinds:
            self.kills(kind)
        for mount in self.mounts:
            mount.umount()
        left = [
            name
            for name in _tree(self.mount.back)
            if "/.ckptfs-" in name and not name.endswith("/.ckptfs-commit.json")
        ]
        assert not left or self.killed["daemon"], left
        self.record()

    def switches(self):
        """What a save costs, and that its switch is worth being set."""
        self.costs = switches.measure(self.fw, RUN_SECONDS)
        say("costs of a save:", self.costs)
        assert switches.times(self.costs) == self.fw.costs, (self.costs, self.fw.costs)
        assert int(self.costs["captured"] + 0.05) == self.fw.captured, (
            self.costs,
            "not all of it was lazy",
            self.fw.captured,
        )
        if self.fw.config.get("rules"):
            switches.ordinary_without_rules(self.fw, RUN_SECONDS)
        if self.fw.switch:
            switched = self.fw.switched()
            costs = switches.measure(switched, RUN_SECONDS)
            say(f"with {self.fw.switch}:", costs)
            assert switches.times(costs) == switched.costs < self.fw.costs, (costs, switched.costs)

    def record(self):
        """For table.py."""
        row = {
            "name": self.fw.name,
            "version": environment.version(self.fw.package),
            "commits": self.fw.commits,
            "switch": self.fw.switch,
            "costs": self.fw.costs,
            "switched": self.fw.switch and self.fw.switched().costs,
            "captured": self.fw.captured,
            "lazily": self.fw.lazily,
            "fsyncs": self.costs["fsyncs"],
            "rules": self.fw.config.get("rules", []),
            "prompt": self.fw.prompt,
            "killed": self.killed,
        }
        write_down("results", row)


def write_down(where, row):
    top = os.path.join(environment.TOP, where)
    os.makedirs(top, exist_ok=True)
    with open(
        f"{top}/{os.path.basename(os.environ['TEST_NAME'])}.json", "w", encoding="utf-8"
    ) as file:
        json.dump(row, file)


def _tree(directory):
    found = []
    for top, dirs, files in os.walk(directory):
        found += [os.path.relpath(os.path.join(top, name), directory) for name in files + dirs]
    return sorted(found)


def _plain(names):
    return [
        name
        for name in names
        if os.path.basename(name) not in (".ckptfs-commit.json", ".ckptfs-index.json")
    ]


def main(framework):
    if os.environ.get("CKPTFS_TEST_RECORD"):
        record(framework, os.environ["CKPTFS_TEST_RECORD"])
        return
    environment.need_fuse()
    print("seed", SEED)
    Watch(framework).all()
