# SPDX-License-Identifier: Apache-2.0
"""What a client holds where, as it counts itself: for people who ask the service, which decides nothing by it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from penstock import _library
from penstock.errors import InvalidArgumentError

# weights; work: activations; carry: what lives from one piece of work to the next, as cast buffers do; results: kept
# outputs; state: what parts of a program keep on themselves; other: all else.
KINDS = ("weights", "work", "carry", "results", "state", "other")
# disk: in a file alone.
PLACES = ("device", "locked_host", "anonymous", "page_cache", "disk")


@dataclass(frozen=True)
class Holding:
    """Bytes of a kind in a place; `device`, for the place of that name: an id, None is the first."""

    kind: str
    place: str
    nbytes: int
    device: str | None = None


def entries(holdings: Sequence[Holding]) -> ctypes.Array[_library.HoldingEntry]:
    array = (_library.HoldingEntry * len(holdings))()
    for entry, one in zip(array, holdings):
        if one.kind not in KINDS or one.place not in PLACES or one.nbytes < 0:
            raise InvalidArgumentError(f"{one} is no holding")
        entry.size = ctypes.sizeof(_library.HoldingEntry)
        entry.kind, entry.place, entry.bytes = KINDS.index(one.kind), PLACES.index(one.place), one.nbytes
        entry.device = one.device.encode() if one.device is not None else None
    return array
