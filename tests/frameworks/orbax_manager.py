#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Orbax's CheckpointManager with max_to_keep, of arrays that two processes of JAX have parts of. It
saves while training goes on, below a temporary name."""

from harness import Framework, enter, main

enter("orbax-checkpoint", "jax", "jaxlib", "numpy")
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

WIDTH = 160


def loss(model, batch):
    return jnp.square(jnp.tanh(batch @ model["in"]) @ model["out"] - jnp.roll(batch, 1, 1)).mean()


@jax.jit
def once(state):
    """A step of Adam, of sorts."""
    batch = jax.random.normal(
        jax.random.fold_in(jax.random.key(1), state["step"]), (8, state["model"]["in"].shape[0])
    )
    gradient = jax.grad(loss)(state["model"], batch)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], gradient)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["second"], gradient)
    model = jax.tree.map(
        lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), state["model"], first, second
    )
    return {"model": model, "first": first, "second": second, "step": state["step"] + 1}


def begin(width):
    """Each process has half of the rows of each matrix."""
    mesh = jax.make_mesh((jax.device_count(),), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, whole = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(mesh, PartitionSpec())

    def all_of(scale):
        random = np.random.default_rng(1)
        return {
            name: jax.device_put(scale * random.standard_normal(shape, np.float32), rows)
            for name, shape in {"in": (width, 2 * width), "out": (2 * width, width)}.items()
        }

    return {
        "model": all_of(0.05),
        "first": all_of(0),
        "second": all_of(0),
        "step": jax.device_put(np.int32(0), whole),
    }


def gathered(state):
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(state, tiled=True))


class Orbax(Framework):
    name = "Orbax, CheckpointManager"
    package = "orbax-checkpoint"
    pattern = r"(\d+)"
    done = "rename ."
    lazily = "no lazy form: arrays of JAX, which Orbax copies itself"
    commits = "the rename of the directory to its final name"

    def name_of(self, name):
        return re.sub("/d/[0-9a-f]{32}", "/d/RANDOM", name)

    def load(self, path):
        checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
        array = ocp.RestoreArgs(restore_type=np.ndarray)
        args = {name: {"in": array, "out": array} for name in ("model", "first", "second")}
        args["step"] = array
        return checkpointer.restore(
            path + "/default", args=ocp.args.PyTreeRestore(restore_args=args)
        )

    def train(self, run):
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", run.world, run.rank
        )
        manager = ocp.CheckpointManager(
            run.dir, options=ocp.CheckpointManagerOptions(max_to_keep=self.keep)
        )
        state, step, saving = begin(WIDTH * run.scale), 0, None
        if manager.latest_step() is not None:
            step = manager.latest_step()
            state = manager.restore(
                step,
                args=ocp.args.StandardRestore(jax.tree.map(ocp.utils.to_shape_dtype_struct, state)),
            )
        run.began(step, gathered(state))
        while step < run.steps:
            state, step = once(state), step + 1
            if step % run.every == 0:
                if saving:
                    manager.wait_until_finished()
                    run.saved(saving)
                run.saving(step, gathered(state))
                manager.save(step, args=ocp.args.StandardSave(state))
                run.returned(step)
                saving = step
        manager.wait_until_finished()
        if saving:
            run.saved(saving)
        run.ended(step, gathered(state))
        manager.close()
        jax.distributed.shutdown()


if __name__ == "__main__":
    main(Orbax())
