# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.host_buffer: page-locked memory that grows at its end, and files read into memory."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from typing import Any

from penstock_comfyui import devices, file_memory, gpu, host_memory, read_ahead, theirs

lib = theirs.module("control")


def _descriptor(file_obj: Any) -> int:
    return file_obj if isinstance(file_obj, int) else file_obj.fileno()


@contextlib.contextmanager
def _as_theirs() -> Iterator[None]:
    """ComfyUI knows one kind of failure."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"penstock: {error}") from error


@_as_theirs()
def read_file_to_device(file_obj: Any, file_offset: int, size: int, stream: int, device_ptr: int, device: int,
                        mark_cold: bool = True) -> None:
    if not devices.ours(device):
        theirs.call("host_buffer", "read_file_to_device", file_obj, file_offset, size, stream, device_ptr, device,
                    mark_cold=mark_cold)
        return
    driver = devices.driver_of(device)
    if driver is not None:
        read_ahead.read_and_take(_descriptor(file_obj), file_offset, size,
                                 lambda place, at, part: driver.copy_in(place, device_ptr + at, part, stream))
        return
    # Host memory has no streams: it is done when this returns.
    read_ahead.read_to_memory(_descriptor(file_obj), file_offset, size, device_ptr)


@_as_theirs()
def write_device_to_file(file_obj: Any, file_offset: int, size: int, stream: int, device_ptr: int,
                         device: int) -> None:
    if not devices.ours(device):
        theirs.call("host_buffer", "write_device_to_file", file_obj, file_offset, size, stream, device_ptr, device)
        return
    driver = devices.driver_of(device)
    if driver is not None:
        file_memory.write_through(_descriptor(file_obj), file_offset, size,
                                  lambda place, at, part: driver.copy_out(device_ptr + at, place, part, stream))
        return
    file_memory.write_from(_descriptor(file_obj), file_offset, size, device_ptr)


@_as_theirs()
def write_host_to_file(file_obj: Any, file_offset: int, size: int, host_ptr: int) -> None:
    file_memory.write_from(_descriptor(file_obj), file_offset, size, host_ptr)


def cleanup_file_reader() -> None:
    read_ahead.let_go()
    if theirs.works():
        theirs.call("host_buffer", "cleanup_file_reader")


class HostBuffer:
    """Costs nothing until it grows. `size` is a plain attribute, as ComfyUI reads it."""

    def __new__(cls, size: int, prewarm: int = 0, max_grow_size: int = 0, mark_cold: bool = True) -> Any:
        # A buffer of a GPU's must be known to its driver; theirs does that.
        other = theirs.module("host_buffer") if theirs.works() and not devices.ours(0) else None
        return super().__new__(cls) if other is None else other.HostBuffer(size, prewarm, max_grow_size, mark_cold)

    def __init__(self, size: int, prewarm: int = 0, max_grow_size: int = 0, mark_cold: bool = True) -> None:
        self.prewarm = max(0, int(prewarm))
        self.size = 0
        self._memory = host_memory.LockedBuffer(int(max(size, max_grow_size)))
        # What was added in one piece, and may be registered with a driver: ComfyUI does that piece by piece itself.
        self._pieces: list[tuple[int, int]] = []
        # Which know it, though their GPUs may be ours no more by the time that it goes: what stays registered is taken for
        # page-locked, whatever lies at that address then.
        self._drivers: list[gpu.Driver] = []
        weakref.finalize(self, _unregister_at_end, self._memory, self._drivers, self._pieces, os.getpid()).atexit = False
        if int(size) > 0:
            self.extend(size)

    def get_raw_address(self) -> int:
        return self._memory.address

    def extend(self, size: int, reallocate: bool = False, register: bool = True) -> int:
        """`size` bytes more; their address. RuntimeError: there is no locked memory for it; what was there stays."""
        start, size = self.size, int(size)
        self._memory.extend(size)
        if size <= 0:
            return self._memory.address + start if start else 0
        try:
            if register:
                self._register(start, size)
        except RuntimeError:
            self._memory.truncate(start)
            raise
        self._pieces.append((start, size))
        self._note_drivers()
        self.size = self._memory.size
        return self._memory.address + start

    @_as_theirs()
    def read_file_slice(self, file_obj: Any, file_offset: int, size: int, offset: int = 0, stream: int = 0,
                        device_ptr: int = 0, device: int | None = -1) -> None:
        """Into the buffer, which grows where they leave it, and on to the device where one is given."""
        file_offset, size, offset = int(file_offset), int(size), int(offset)
        if min(file_offset, size, offset) < 0:
            raise RuntimeError(f"penstock: no part of a file: {size} bytes from {file_offset} on to {offset}")
        if offset + size > self.size:
            self.extend(offset + size - self.size, register=False)
        place = self._memory.address + offset
        if size > 0:
            self._memory.read(offset, _descriptor(file_obj), file_offset, size)
        if not device_ptr:
            return
        # Also a GPU that is not ours: this buffer is, since the first one is.
        driver = devices.driver_of(device)
        if driver is None and device is not None and device >= 0 and not devices.on_host(device):
            driver = next(iter(devices.drivers()), None) or gpu.loaded()
        if driver is not None:
            driver.copy_in(place, device_ptr, size, stream)
        else:
            host_memory.copy(place, device_ptr, size)

    def register(self, offset: int, size: int) -> None:
        """With the drivers of our GPUs. Its memory is locked from the start, and where there is no driver nobody has to be told."""
        offset, size = int(offset), int(size)
        if offset < 0 or size <= 0 or offset + size > self.size:
            raise RuntimeError(f"penstock: {size} bytes at {offset} leave the host buffer of {self.size}")
        if not self._register(offset, size):
            raise RuntimeError(f"penstock: some of {size} bytes at {offset} is registered already")
        if not any(piece[0] == offset for piece in self._pieces):
            self._pieces.append((offset, size))

    def _register(self, offset: int, size: int) -> bool:
        """False: some of it was already, and still is."""
        return all([driver.register(self._memory.address + offset, size) for driver in self._note_drivers()])

    def _note_drivers(self) -> list[gpu.Driver]:
        """Those that are ours now."""
        found = devices.drivers()
        self._drivers.extend(one for one in found if one not in self._drivers)
        return found

    def unregister(self, offset: int) -> None:
        """What begins there. RuntimeError: a driver doesn't know it."""
        if not _unregister(self._memory, devices.drivers(), [(int(offset), 0)]):
            raise RuntimeError(f"penstock: nothing is registered at {offset}")

    def truncate(self, size: int, do_unregister: bool = True) -> None:
        """Only the end can be given back; the address stays. What is registered there must not be any more when its memory
        goes: ComfyUI leaves that to us, unless it says otherwise."""
        size = int(size)
        if do_unregister and 0 <= size <= self.size:
            self._note_drivers()
            _unregister(self._memory, self._drivers, [piece for piece in self._pieces if sum(piece) > size])
        self._memory.truncate(size)
        self._pieces[:] = [(offset, min(length, size - offset)) for offset, length in self._pieces if offset < size]
        self.size = self._memory.size


def _unregister(memory: host_memory.LockedBuffer, drivers: list[gpu.Driver], pieces: list[tuple[int, int]]) -> bool:
    """All of them were."""
    return all([driver.unregister(memory.address + offset) for driver in drivers for offset, _ in pieces])


def _unregister_at_end(memory: host_memory.LockedBuffer, drivers: list[gpu.Driver], pieces: list[tuple[int, int]],
                       process: int) -> None:
    """Before the memory, which this keeps until then. A forked child has no driver."""
    if os.getpid() == process:
        _unregister(memory, [*drivers, *(one for one in devices.drivers() if one not in drivers)], pieces)
