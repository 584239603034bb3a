#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client in Python: pins tensor after tensor of a checkpoint and compares each with its checksum.

The checksums are those that `penstock make-checkpoint` wrote beside the file. Prints one JSON object; exit 0 when all
that could be pinned are equal; `offloaded` counts those that there was no room for.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time

import penstock


def read_sums(path: str) -> dict[str, str]:
    sums: dict[str, str] = {}
    with open(path + ".sha256", encoding="utf-8") as lines:
        for line in lines:
            digest, name = line.rstrip("\n").split("  ", 1)
            sums[name] = digest
    return sums


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("file")
    options = parser.parse_args()
    sums = read_sums(options.file)
    compared = different = offloaded = size = 0
    start = time.monotonic()
    with penstock.connect(socket=options.socket) as service:
        service.use_device()
        checkpoint = service.open(options.file)
        for _ in range(options.rounds):
            for name in checkpoint.tensors:
                try:
                    pinned = checkpoint.pin(name)
                except penstock.OffloadedError:
                    offloaded += 1
                    continue
                with pinned as tensor:
                    digest = hashlib.sha256(tensor.tobytes() if checkpoint.on_gpu else tensor.memory).hexdigest()
                    size += tensor.nbytes
                compared += 1
                if digest != sums[name]:
                    different += 1
                    print(f"verify_checkpoint.py: {name} differs", file=sys.stderr)
        checkpoint.close()
    print(json.dumps({"compared": compared, "different": different, "offloaded": offloaded, "bytes": size,
                      "seconds": round(time.monotonic() - start, 3)}))
    return 0 if compared > 0 and different == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
