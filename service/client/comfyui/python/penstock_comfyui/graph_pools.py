# SPDX-License-Identifier: Apache-2.0
"""What torch's allocator keeps for recorded graphs, and for nobody else."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Pools:
    """Of one device, in bytes."""

    reserved: int = 0
    allocated: int = 0  # Of those: what torch counts among its allocations.


def graph_pools(torch: Any) -> dict[int, Pools]:
    """By torch's number of the device. Walks all of torch's blocks."""
    found: dict[int, Pools] = {}
    for segment in torch.cuda.memory_snapshot():
        if tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0):  # Everybody's.
            continue
        before = found.get(int(segment["device"]), Pools())
        found[int(segment["device"])] = Pools(before.reserved + int(segment["total_size"]),
                                              before.allocated + int(segment["allocated_size"]))
    return found
