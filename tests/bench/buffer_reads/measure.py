# SPDX-License-Identifier: Apache-2.0
"""Files read into a host buffer by the service, beside preadv of this process into the same buffer, turn by turn.

usage: PENSTOCK_BUILD_DIR=build/release PYTHONPATH=build/release/python python3 measure.py FOLDER [MEBIBYTES]

One JSON object: bytes a second (median of the turns) by way, size of a read and whether the page cache had the file.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integration/service"))

import daemon  # noqa: E402
import penstock  # noqa: E402

MIB = 1 << 20
TURNS = 5
SIZES = (64 << 10, MIB, 16 * MIB, 64 * MIB)


def seconds(read: Callable[[int, int], None], nbytes: int, size: int) -> float:
    start = time.perf_counter()
    for at in range(0, nbytes, size):
        read(at, min(size, nbytes - at))
    return time.perf_counter() - start


def main() -> int:
    folder, nbytes = Path(sys.argv[1]), int(sys.argv[2] if len(sys.argv) > 2 else 256) * MIB
    path = folder / "measured"
    with open(path, "wb") as file:
        for _ in range(0, nbytes, MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    figures: dict[str, dict[str, float]] = {}
    with daemon.Daemon(capacity="64MiB") as running, penstock.connect(socket=str(running.socket)) as service:
        buffer = service.host_buffer(nbytes)
        buffer.grow(nbytes)
        descriptor = os.open(path, os.O_RDONLY)

        def by_service(at: int, size: int) -> None:
            buffer.read(at, descriptor, at, size)

        def by_preadv(at: int, size: int) -> None:
            view = memoryview((ctypes.c_ubyte * size).from_address(buffer.address + at)).cast("B")
            done = 0
            while done < size:
                done += os.preadv(descriptor, [view[done:]], at + done)

        for cached in (True, False):
            for size in SIZES:
                taken: dict[str, list[float]] = {"service": [], "preadv": []}
                for _ in range(TURNS):
                    for name, read in (("service", by_service), ("preadv", by_preadv)):
                        if not cached:
                            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                        taken[name].append(nbytes / seconds(read, nbytes, size))
                    if cached:
                        by_preadv(0, nbytes)
                speeds = {name: statistics.median(one) for name, one in taken.items()}
                figures[f"{'cached' if cached else 'uncached'}, {size >> 10} KiB a read"] = {
                    **{name: round(one) for name, one in speeds.items()},
                    "service_of_preadv": round(speeds["service"] / speeds["preadv"], 2)}
    path.unlink()
    print(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
