# SPDX-License-Identifier: Apache-2.0
"""Files into memory of this process, and out of it, by this process itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

PART = 8 << 20


def read_into(descriptor: int, file_offset: int, nbytes: int, address: int) -> None:
    """All of the bytes, or an exception."""
    done = 0
    view = memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")
    while done < nbytes:
        count = os.preadv(descriptor, [view[done:]], file_offset + done)
        if count <= 0:
            raise RuntimeError(f"penstock: the file ended at byte {file_offset + done}")
        done += count


def read_through(descriptor: int, file_offset: int, nbytes: int, take: Callable[[int, int, int], None]) -> None:
    """Part by part by way of memory that is `take`'s only while it runs: address, place among the bytes, number of bytes."""
    memory = (ctypes.c_ubyte * min(nbytes, PART))()
    for at in range(0, nbytes, PART):
        part = min(PART, nbytes - at)
        read_into(descriptor, file_offset + at, part, ctypes.addressof(memory))
        take(ctypes.addressof(memory), at, part)


def write_through(descriptor: int, file_offset: int, nbytes: int, give: Callable[[int, int, int], None]) -> None:
    """The opposite: `give` puts the bytes there."""
    memory = (ctypes.c_ubyte * min(nbytes, PART))()
    for at in range(0, nbytes, PART):
        part = min(PART, nbytes - at)
        give(ctypes.addressof(memory), at, part)
        write_from(descriptor, file_offset + at, part, ctypes.addressof(memory))


def write_from(descriptor: int, file_offset: int, nbytes: int, address: int) -> None:
    done = 0
    view = memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")
    while done < nbytes:
        done += os.pwritev(descriptor, [view[done:]], file_offset + done)
