# SPDX-License-Identifier: MIT
"""What a test says of its framework."""

import os
import re


class Framework:
    name = ""  # of the row in the README's table
    package = ""  # of requirements.txt, whose version is shown
    world = 2  # ranks; 0: one process that knows of none
    steps, every = 24, 2  # how far it trains, and after how many steps it saves
    keep = 2  # how many checkpoints rotation leaves
    config = {}  # of the mount, beside what all have
    files = False  # its checkpoints are single files
    # The evidence in the commit file, or several of which each will do. Of single files: None.
    done = None
    # Is that there when the save has returned? Else it comes with the next save or the job's end.
    prompt = True
    commits = ""  # for the table: what commits a checkpoint
    # How many times a save writes the state to the mount and to TMPDIR, and copies it in memory.
    costs = (1, 0, 0)
    captured = 0  # and how many times it captures it lazily
    alone = False  # does rank 0 alone have something large to save?
    lazily = ""  # for the table: what makes it do so, or why nothing can
    switch = ""  # for the table: what to set, to have it cheaper
    switched = None  # the class of those for which that is set

    def train(self, run):
        """In each rank: take up the newest checkpoint in run.dir, run.began(), go on to run.steps,
        save every run.every steps, run.ended(). All of it as a user of the framework does it."""
        raise NotImplementedError

    def load(self, path):
        """The state, as it was given to run.saving(), of a checkpoint; in a process without
        ranks."""
        raise NotImplementedError

    pattern = r"step-(\d+)"

    def found(self, directory):
        """{step: path} of what is there under the name of a checkpoint."""
        names = os.listdir(directory) if os.path.isdir(directory) else []
        matches = filter(None, (re.fullmatch(self.pattern, name) for name in names))
        return {int(match.group(1)): os.path.join(directory, match.group(0)) for match in matches}

    def name_of(self, name):
        """Of a file, without what is another in each run."""
        return name

    def resumes(self, directory):
        """The step that a job begins with, by the way in which the framework looks for it."""
        return newest(self.found(directory))

    def pointer(self, directory):
        """The checkpoint that its pointer names, or None."""
        return None


def newest(found):
    return max(found) if found else 0
