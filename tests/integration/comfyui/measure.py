#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two servers with one model of 2 GiB, plain and with penstock, in one run: seconds and memory, as JSON.

usage: measure.py [--models FOLDER] [--side plain|penstock|dynamic] [HEADS BLOCKS]
with the environment of the tests beside it; 16 heads and 3 blocks are 2 GiB. FOLDER keeps the models for another run, --side
measures one side alone: plain and penstock are ComfyUI on the CPU; dynamic is penstock with DynamicVRAM, for which host memory
plays the device, and whose weights come with the first prompt.

Before each side the model's pages are dropped from the page cache. Memory is the sum of both servers' own shares (PSS) and,
with penstock, that of the service; `weights_bytes` is what that sum grew by over two servers without a model, and the page
cache has what it has of the file beside it. `disk_bytes` is what both servers and the service read from disks for their
weights and three prompts.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))

import daemon  # noqa: E402
import server  # noqa: E402


def share_of(process: int) -> int:
    """Bytes of memory, those that others map too by their part."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def read_by(process: int) -> int:
    """Bytes that came from disks for it so far."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
    return int(lines["read_bytes"])


def drop(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached(path: Path) -> int:
    """Bytes of a file in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    nbytes, page = path.stat().st_size, mmap.PAGESIZE
    with open(path, "rb") as file, mmap.mmap(file.fileno(), nbytes, flags=mmap.MAP_PRIVATE,
                                             prot=mmap.PROT_READ | mmap.PROT_WRITE) as memory:
        there = (ctypes.c_ubyte * (-(-nbytes // page)))()
        start = ctypes.c_char.from_buffer(memory)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(nbytes), there)
        del start
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
    return sum(one & 1 for one in there) * page


@contextmanager
def timed(figures: dict[str, Any], name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    figures[name] = round(time.monotonic() - started, 3)


def measure(folder: Path, models: Path, service: daemon.Daemon | None, on_host: bool = False) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    model = models / "diffusion_models/flux.safetensors"
    drop(model)
    link = service.socket if service is not None else None
    with timed(figures, "start_seconds"):
        one = server.Comfy(folder / "one", models, penstock=link, on_host=on_host)

    def of_all(figure: Callable[[int], int]) -> int:
        processes = [one.process.pid, two.process.pid, *([service.process.pid] if service is not None else [])]
        return sum(map(figure, processes))

    with one, server.Comfy(folder / "two", models, penstock=link, on_host=on_host) as two:
        empty, read = of_all(share_of), of_all(read_by)
        for name, comfy in (("first", one), ("second", two)):
            with timed(figures, f"{name}_server_weights_ready_seconds"):
                comfy.load()
        pixels = []
        for seed in (1, 2):
            with timed(figures, f"prompt_{seed}_seconds"):
                pixels.append(one.run(seed=seed))
        assert two.run(seed=1) == pixels[0]
        figures["all_bytes"] = of_all(share_of)
        figures["weights_bytes"] = figures["all_bytes"] - empty
        figures["disk_bytes"] = of_all(read_by) - read
        figures["page_cache_bytes"] = cached(model)
        if service is not None:
            figures["service_bytes"] = share_of(service.process.pid)  # With frames that are made ahead.
            figures["resident_bytes"] = service.device()["resident_bytes"]
        figures["pixels"] = hashlib.sha256(b"".join(pixels)).hexdigest()[:16]
    return figures


def with_service(folder: Path, models: Path, on_host: bool = False) -> dict[str, Any]:
    nbytes = (models / "diffusion_models/flux.safetensors").stat().st_size
    with daemon.Daemon(capacity=str(nbytes * 5 // 4 + (64 << 20))) as service:
        return measure(folder, models, service, on_host)


def main() -> int:
    if server.missing():
        print(f"skipped: {server.missing()}")
        return 77
    options = argparse.ArgumentParser()
    options.add_argument("--models", type=Path)
    options.add_argument("--side", choices=("plain", "penstock", "dynamic"))
    options.add_argument("size", nargs="*", default=["16", "3"])
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-comfyui-") as name:
        folder = Path(name)
        models = chosen.models or folder / "models"
        if not (models / "loras").exists():
            subprocess.run([server.PYTHON, str(server.HERE / "models.py"), str(models), "float32", *chosen.size], check=True)
        found: dict[str, dict[str, Any]] = {}
        sides: dict[str, Callable[[], dict[str, Any]]] = {
            "plain": lambda: measure(folder / "plain", models, None),
            "penstock": lambda: with_service(folder / "penstock", models),
            "dynamic": lambda: with_service(folder / "dynamic", models, on_host=True)}
        for side, measured in sides.items():
            if chosen.side in (None, side):
                found[side] = measured()
        model_bytes = (models / "diffusion_models/flux.safetensors").stat().st_size
    print(json.dumps({"model_bytes": model_bytes, **found}, indent=2))
    return 0 if len({one["pixels"] for one in found.values()}) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
