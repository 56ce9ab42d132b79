# SPDX-License-Identifier: MIT
"""A small PyTorch training loop that saves itself between steps.

usage: train_torch.py DIR

An ordinary training script: a transformer of 52 million parameters with AdamW (600 MiB of
state), two checkpoints, and a check that what torch.load returns is what was saved.
Everything is seeded and runs on one thread, so that two runs write the same bytes.
"""

import os
import sys
import time

import torch
from torch import nn

VOCAB, WIDTH, LAYERS, HEADS, CONTEXT = 512, 1024, 4, 8, 16
STEPS, SAVE_EVERY = 4, 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(tokens)))


def tensors(tree, path=()):
    """Every (path, leaf) of a nest of dicts and lists."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from tensors(value, path + (key,))
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield from tensors(value, path + (index,))
    else:
        yield path, tree


def must_equal(got, want, what: str) -> None:
    got, want = dict(tensors(got)), dict(tensors(want))
    if got.keys() != want.keys():
        sys.exit(f"{what}: loaded other keys than were saved")
    for path, value in want.items():
        same = torch.equal(got[path], value) if torch.is_tensor(value) else got[path] == value
        if not same:
            sys.exit(f"{what}: {'.'.join(map(str, path))} differs from what was saved")


def main(directory: str) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss_of = nn.CrossEntropyLoss()
    blocked = 0.0
    for step in range(1, STEPS + 1):
        tokens = torch.randint(VOCAB, (2, CONTEXT + 1))
        loss = loss_of(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % SAVE_EVERY == 0:
            path = os.path.join(directory, f"step-{step}.pt")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            start = time.perf_counter()
            torch.save(state, path)
            blocked += time.perf_counter() - start
            print(f"step {step}: loss {loss.item():.4f}, saved {os.path.getsize(path)} bytes")
    must_equal(torch.load(path, weights_only=True), state, "torch.load")
    must_equal(torch.load(path, weights_only=True, mmap=True), state, "torch.load, mmap")
    print(f"blocked {blocked:.3f}")


main(sys.argv[1])
