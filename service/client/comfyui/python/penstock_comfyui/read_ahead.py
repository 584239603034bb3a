# SPDX-License-Identifier: Apache-2.0
"""Files on their way to pages and to GPUs: the service reads them part by part into locked memory, from where the calling
thread passes on one part while the next one is read. This process reads itself what the service doesn't."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock_comfyui.file_memory import read_into, read_through
from penstock_comfyui.fork_lock import ForkLock
from penstock_comfyui.host_memory import READ_BY_SERVICE_LEAST, LockedBuffer, copy

# Address, place among the bytes, number of bytes. The memory is the taker's only while it runs.
Take = Callable[[int, int, int], None]

PART = 16 << 20  # Less takes longer to ask for.
PARTS = 3
KEPT = 2  # Buffers that nobody uses now.

_lock = ForkLock()
_kept: list[tuple[int, LockedBuffer]] = []  # With the process that they belong to.


def read_to_memory(descriptor: int, file_offset: int, nbytes: int, address: int) -> None:
    """All of the bytes, or an exception."""
    done = _by_service(descriptor, file_offset, nbytes, lambda place, at, part: copy(place, address + at, part))
    if done < nbytes:
        read_into(descriptor, file_offset + done, nbytes - done, address + done)


def read_and_take(descriptor: int, file_offset: int, nbytes: int, take: Take) -> None:
    """All of the bytes, or an exception."""
    done = _by_service(descriptor, file_offset, nbytes, take)
    if done < nbytes:
        read_through(descriptor, file_offset + done, nbytes - done,
                     lambda place, at, part: take(place, done + at, part))


def let_go() -> int:
    """Nothing will be read for a while, or others need the memory more; the bytes that went."""
    with _lock:
        kept, _kept[:] = [buffer for process, buffer in _kept if process == os.getpid()], []
    nbytes = sum(buffer.granted for buffer in kept)
    for buffer in kept:
        buffer.close()
    return nbytes


def _by_service(descriptor: int, file_offset: int, nbytes: int, take: Take) -> int:
    """How many of the bytes were taken."""
    if nbytes < READ_BY_SERVICE_LEAST:
        return 0
    buffer = _get()
    if buffer is None:
        return 0
    done = 0
    try:
        done = _parts(buffer, descriptor, file_offset, nbytes, take)
    finally:
        if done == nbytes:
            _put_back(buffer)
        else:
            buffer.close()  # It may be of a service that is gone, or still be written to.
    return done


def _parts(buffer: LockedBuffer, descriptor: int, file_offset: int, nbytes: int, take: Take) -> int:
    def place_of(at: int) -> int:
        return at // PART % PARTS * PART

    def read(at: int) -> bool:
        return buffer.read_by_service(place_of(at), descriptor, file_offset + at, min(PART, nbytes - at))

    places = iter(range(0, nbytes, PART))
    # One part is taken while the others are read.
    with ThreadPoolExecutor(PARTS - 1) as readers:
        coming = deque((at, readers.submit(read, at)) for at in itertools.islice(places, PARTS - 1))
        while coming:
            at, answer = coming.popleft()
            if not answer.result():
                return at
            coming.extend((more, readers.submit(read, more)) for more in itertools.islice(places, 1))
            take(buffer.address + place_of(at), at, min(PART, nbytes - at))
    return nbytes


def _get() -> LockedBuffer | None:
    """None: there is no locked memory for it, or no service."""
    with _lock:
        while _kept:
            process, buffer = _kept.pop()
            if process == os.getpid():
                return buffer
    buffer = LockedBuffer(PARTS * PART)
    try:
        buffer.extend(PARTS * PART)
    except RuntimeError:
        return None
    return buffer


def _put_back(buffer: LockedBuffer) -> None:
    with _lock:
        if len(_kept) < KEPT:
            return _kept.append((os.getpid(), buffer))
    buffer.close()
