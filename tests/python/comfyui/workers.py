# SPDX-License-Identifier: Apache-2.0
"""What processes beside a test do. Each ends by os._exit, as a killed one does: nothing is given back in order."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from comfyui.recorded_caller import filed_model, model
from comfyui.seam import peek, poke, start_child
from penstock_comfyui.surface import model_vbar


def work(socket: str, kind: str, nbytes: int, seed: int, rounds: int, ready: Any) -> None:
    """A model of its own, over and over."""
    start_child(socket, kind)
    one = model(16, nbytes, seed=seed)
    for _ in range(rounds):
        one.load()
        one.forward()
        ready.set()
    os._exit(0)


def share(socket: str, kind: str, path: Path, nbytes: int, changed: tuple[int, ...], ready: Any, go: Any,
          backwards: bool = False) -> None:
    """A model of a file, with a LoRA on some of its modules."""
    start_child(socket, kind)
    one = filed_model(path, 12, nbytes, backwards=backwards)
    for number in changed:
        one.modules[number].change(b"LoRA")
    one.load(dirty=True)
    one.forward()
    ready.set()
    go.wait(60)
    for _ in range(3):
        one.forward()
    os._exit(0 if one.counts.offloaded == 0 else 3)


share_backwards = functools.partial(share, backwards=True)  # Allocated the other way round.


def use_some(socket: str, kind: str, path: Path, nbytes: int, numbers: tuple[int, ...], ready: Any, go: Any) -> None:
    """Some modules of a model of a file."""
    start_child(socket, kind)
    one = filed_model(path, 12, nbytes)
    one.load(dirty=True)
    for number in numbers:
        one.use(one.modules[number])
    ready.set()
    go.wait(60)
    os._exit(0)


def write(socket: str, kind: str, path: Path, nbytes: int) -> None:
    """Where it must not."""
    os.environ["PENSTOCK_FAKE_STICKY_FAULTS"] = "1"
    start_child(socket, kind)
    one = filed_model(path, 12, nbytes)
    one.load()
    first = one.modules[0].allocation
    model_vbar.vbar_fault(first)
    try:
        poke(first[1], b"!")
        peek(first[1], 1)
    except RuntimeError:
        os._exit(4)  # The driver refused it, and the context is lost.
    os._exit(0)
