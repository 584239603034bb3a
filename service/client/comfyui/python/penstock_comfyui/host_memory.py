# SPDX-License-Identifier: Apache-2.0
"""Memory beside the weights' pages: host buffers out of the node's locked memory, and cast buffers.

A host buffer grows by granules: what ComfyUI adds for one module is a few KiB, and the service keeps a descriptor for
each piece. Its `size` is what ComfyUI sees.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import threading
import weakref

import penstock
from penstock import errors
from penstock.memory import HostBuffer
from penstock_comfyui import devices
from penstock_comfyui.address_space import AddressSpace
from penstock_comfyui.file_memory import read_into
from penstock_comfyui.fork_lock import ForkLock
from penstock_comfyui.link import AWAY, link, say_once

GRANULE = 8 << 20
READ_BY_SERVICE_LEAST = 4 << 20  # What is less takes longer to ask for than to read.
READ_SECONDS = 300.0  # A disk may be slow; a mount that hangs does so for ever.

_locked: weakref.WeakSet[LockedBuffer] = weakref.WeakSet()
_growing: weakref.WeakSet[GrowingMemory] = weakref.WeakSet()
_lock = ForkLock()


class LockedBuffer:
    """Raises RuntimeError where the budget has no more: ComfyUI then uses memory that it has pinned already."""

    def __init__(self, nbytes_max: int) -> None:
        self.nbytes_max = nbytes_max
        self.size = 0
        self._granted = 0
        self._buffer: HostBuffer | None = None
        with _lock:
            _locked.add(self)

    @property
    def address(self) -> int:
        return self._buffer.address if self._buffer is not None else 0

    @property
    def granted(self) -> int:
        return self._granted

    def extend(self, nbytes: int) -> None:
        wanted = self.size + nbytes
        self.nbytes_max = self.nbytes_max if self._buffer is not None else max(self.nbytes_max, wanted)
        if wanted > self.nbytes_max:
            raise RuntimeError(f"penstock: a host buffer of at most {self.nbytes_max} bytes can't have {wanted}")
        if wanted > self._granted:
            self._grow(wanted)
        self.size = wanted

    def truncate(self, nbytes: int) -> None:
        if not 0 <= nbytes <= self.size:
            raise RuntimeError(f"penstock: a host buffer of {self.size} bytes can't be cut to {nbytes}")
        self.size = nbytes
        kept = min(-(-nbytes // GRANULE) * GRANULE, self._granted)
        if self._buffer is None or kept == self._granted or link.is_silent():
            return  # It may be cut off later.
        self._granted = kept
        try:
            self._buffer.truncate(kept)
        except (*AWAY, errors.DeadlineError) as error:
            link.away(error)  # It is unmapped here, and the service's session ended with the connection.

    def read(self, offset: int, descriptor: int, file_offset: int, nbytes: int) -> None:
        """All of the bytes of a file, or an exception. The service reads them; this process does where that can't."""
        if nbytes < READ_BY_SERVICE_LEAST or not self.read_by_service(offset, descriptor, file_offset, nbytes):
            read_into(descriptor, file_offset, nbytes, self.address + offset)

    def read_by_service(self, offset: int, descriptor: int, file_offset: int, nbytes: int) -> bool:
        """False: this process has to read it. RuntimeError: nobody can."""
        # What this process writes itself has another identity each time.
        written = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        buffer, service = self._buffer, link.service() if link.may_ask else None
        if buffer is None or written or service is None:
            return False
        try:
            link.patiently(service, lambda: buffer.read(offset, descriptor, file_offset, nbytes, READ_SECONDS))
        except AWAY as error:
            link.away(error)
            return False
        except errors.ChangedWhileReadError:
            return False
        except (errors.DeadlineError, errors.TruncatedError, errors.IoError) as error:
            # Reading it here would meet the same, and bytes that are late would come on top.
            raise RuntimeError(f"penstock: {error}") from error
        except penstock.PenstockError as error:
            say_once(f"files are read by ComfyUI itself: {error.kind}")
            return False
        return True

    def close(self) -> None:
        buffer, self._buffer = self._buffer, None
        self.size = self._granted = 0
        if buffer is not None:
            buffer.close()

    def _grow(self, wanted: int) -> None:
        rounded = min(-(-wanted // GRANULE) * GRANULE, self.nbytes_max)
        service = link.service() if link.may_ask else None
        if service is None:
            raise RuntimeError("penstock: the service is away")
        # The exact size where a granule finds no room.
        for size in dict.fromkeys((rounded, wanted)):
            try:
                buffer = self._open(service)
                link.patiently(service, lambda: buffer.grow(size))
                self._granted = size
                return
            except (*AWAY, errors.DeadlineError) as error:
                link.away(error)
                raise RuntimeError(f"penstock: {error}") from error
            except penstock.PenstockError as error:
                last = error
        say_once(f"no locked memory for host buffers now ({last.kind}); ComfyUI uses what it has")
        raise RuntimeError(f"penstock: {last}") from last

    def _open(self, service: penstock.Service) -> HostBuffer:
        if self._buffer is None:
            self._buffer = service.host_buffer(self.nbytes_max)
        return self._buffer


class GrowingMemory:
    """Memory of this process at one address. Growth is asked for first, and pushes weights of ours out; it is never
    refused, because ComfyUI has nothing else to cast into."""

    def __init__(self, nbytes_max: int, index: int) -> None:
        self.index = index
        self._space = AddressSpace(nbytes_max, writable=True)
        self.address = self._space.address
        self.nbytes_max = nbytes_max
        self.size = 0
        self._lock = threading.Lock()
        self._device: str | None = None
        self._grants: list[penstock.Grant] = []
        with _lock:
            _growing.add(self)

    def booked_bytes(self, device: str) -> int:
        with self._lock:
            return sum(grant.work_bytes for grant in self._grants) if device == self._device else 0

    def place(self, offset: int, nbytes: int) -> int:
        """The address of a range; it stays."""
        self._grow(offset + nbytes)
        return self.address + offset

    def _grow(self, nbytes: int) -> None:
        if nbytes > self.nbytes_max:
            raise RuntimeError(f"penstock: a buffer of at most {self.nbytes_max} bytes can't have {nbytes}")
        with self._lock:
            more = nbytes - self.size
            if more <= 0:
                return
            self.size = nbytes
        device = devices.id_of(self.index)
        grant = _book(more, device)
        if grant is not None:
            with self._lock:
                self._device = device
                self._grants.append(grant)


def locked_bytes() -> int:
    """Of all host buffers."""
    with _lock:
        return sum(one.granted for one in _locked)


def growing_bytes(index: int | None = None) -> int:
    with _lock:
        return sum(one.size for one in _growing if index is None or one.index == index)


def booked_bytes(device: str) -> int:
    """What the service promised to us there."""
    with _lock:
        return sum(one.booked_bytes(device) for one in _growing)


def _book(nbytes: int, device: str | None) -> penstock.Grant | None:
    service = link.service()
    if service is None:
        return None
    try:
        return link.answer(lambda: service.admit(work=nbytes, timeout=0, device=device))
    except AWAY as error:
        link.away(error)
    except penstock.PenstockError as error:
        say_once(f"a cast buffer grows without being booked: {error.kind}")
        try:
            service.free(nbytes, 1, device)
        except penstock.PenstockError:
            pass  # There is nothing of ours to give.
    return None


def copy(source: int, destination: int, nbytes: int) -> None:
    ctypes.memmove(destination, source, nbytes)
