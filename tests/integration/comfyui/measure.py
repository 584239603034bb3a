#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two servers with one model of 2 GiB, plain and with penstock, in one run: seconds and memory, as JSON.

usage: measure.py [HEADS BLOCKS]    with the environment of the tests beside it; 16 heads and 3 blocks are 2 GiB

Before each side the model's pages are dropped from the page cache. Memory is the sum of both servers' own shares (PSS) and,
with penstock, that of the service.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))

import daemon  # noqa: E402
import server  # noqa: E402


def share_of(process: int) -> int:
    """Bytes of memory, those that others map too by their part."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def drop(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def timed(figures: dict[str, float], name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    figures[name] = round(time.monotonic() - started, 3)


def measure(folder: Path, models: Path, service: daemon.Daemon | None) -> dict[str, float]:
    figures: dict[str, float] = {}
    drop(models / "diffusion_models/flux.safetensors")
    link = service.socket if service is not None else None
    with timed(figures, "start_seconds"):
        one = server.Comfy(folder / "one", models, penstock=link)
    with one, server.Comfy(folder / "two", models, penstock=link) as two:
        for name, comfy in (("first", one), ("second", two)):
            with timed(figures, f"{name}_server_weights_ready_seconds"):
                comfy.load()
        pixels = []
        for seed in (1, 2):
            with timed(figures, f"prompt_{seed}_seconds"):
                pixels.append(one.run(seed=seed))
        assert two.run(seed=1) == pixels[0]
        figures["servers_bytes"] = share_of(one.process.pid) + share_of(two.process.pid)
        if service is not None:
            figures["service_bytes"] = share_of(service.process.pid)  # With frames that are made ahead.
            figures["resident_bytes"] = service.device()["resident_bytes"]
        figures["pixels"] = hash(tuple(pixels))
    return figures


def main() -> int:
    if server.missing():
        print(f"skipped: {server.missing()}")
        return 77
    size = sys.argv[1:3] or ["16", "3"]
    with tempfile.TemporaryDirectory(prefix="penstock-comfyui-") as name:
        folder = Path(name)
        subprocess.run([server.PYTHON, str(server.HERE / "models.py"), str(folder / "models"), "float32", *size], check=True)
        plain = measure(folder / "plain", folder / "models", None)
        size_bytes = (folder / "models/diffusion_models/flux.safetensors").stat().st_size
        with daemon.Daemon(capacity=str(size_bytes * 5 // 4 + (64 << 20))) as service:
            ours = measure(folder / "penstock", folder / "models", service)
    same = plain.pop("pixels") == ours.pop("pixels")
    print(json.dumps({"plain": plain, "penstock": ours, "same_pixels": same}, indent=2))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
