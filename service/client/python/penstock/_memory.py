# SPDX-License-Identifier: Apache-2.0
"""What the library gave us, and the objects that own it.

An owner's thing ends when nobody refers to the owner any more: pin, table, checkpoint, connection, in this order, as each
refers to the next. Every exported view refers to its pin, through the ctypes array whose memory it shows; so a page
stays pinned, and the connection open, until the last view is gone.
"""

from __future__ import annotations

import collections
import ctypes
import os
import time
import weakref
from ctypes import c_uint32, c_uint64, c_void_p
from typing import Any

from penstock import _library
from penstock._library import DONE, FOREVER, check, library, nanoseconds, sized
from penstock.errors import ForkedError

# Python sees signals between calls only.
_SLICE_NS = 5_000_000_000


class Connection:
    """Owns a pst_client."""

    def __init__(self, socket: str | os.PathLike[str] | None, name: str | None = None,
                 answer_timeout: float | None = None) -> None:
        self.process = os.getpid()
        options = sized(_library.ConnectOptions)
        options.socket = os.fsencode(socket) if socket is not None else None
        options.name = name.encode() if name is not None else None
        options.answer_timeout_ns = nanoseconds(answer_timeout) if answer_timeout is not None else 0
        self.handle = c_void_p()
        check(library.pst_connect(ctypes.byref(options), ctypes.byref(self.handle)), None)
        at_end(self, library.pst_disconnect, self.handle)

    def check(self, status: int) -> None:
        check(status, self.handle)

    def devices(self) -> list[_library.DeviceInfo]:
        count = c_uint32()
        self.check(library.pst_device_count(self.handle, ctypes.byref(count)))
        found = [sized(_library.DeviceInfo) for _ in range(count.value)]
        for index, info in enumerate(found):
            self.check(library.pst_device_at(self.handle, index, ctypes.byref(info)))
        return found

    def kind_of(self, device: str | None) -> str:
        """Of a device, by its id or kind, or of the first one: "host", "cuda", "hip"."""
        known = ((one.id.decode(), one.kind.decode()) for one in self.devices())
        found = next((kind for id_, kind in known if device in (None, id_, kind)), None)
        return found or gpu_kind(device or "") or "host"

    def check_process(self) -> None:
        """Raises in a child made by fork, also where the library would not be asked."""
        if os.getpid() != self.process:
            raise ForkedError("this process was forked after it connected: a child has no tensors",
                              "connect in the child")
        if _refused:
            make_up()


def gpu_kind(device: str) -> str | None:
    """Of a name that a GPU may have: "cuda", "hip", or an id that begins so."""
    kind = device.partition("-")[0]
    return kind if kind in ("cuda", "hip") else None


class OpenFile:
    """Owns a pst_checkpoint."""

    def __init__(self, connection: Connection, descriptor: int, name: str) -> None:
        self.connection = connection
        self.handle = c_void_p()
        connection.check(library.pst_open_fd(connection.handle, descriptor, name.encode(errors="replace"),
                                             ctypes.byref(self.handle)))
        at_end(self, library.pst_close, self.handle, connection)

    def describe(self) -> _library.CheckpointInfo:
        info = sized(_library.CheckpointInfo)
        self.connection.check(library.pst_checkpoint_describe(self.handle, ctypes.byref(info)))
        return info


class Table:
    """Owns a pst_table of a checkpoint: its own layout, or one put together from `pieces`. Pages in host memory are mapped
    so that copies of them can be written to."""

    def __init__(self, file: OpenFile, device: str | None,
                 pieces: ctypes.Array[_library.ManifestEntry] | None = None) -> None:
        self.file = file
        self.connection = file.connection
        options = sized(_library.TableOptions)
        options.device = device.encode() if device is not None else None
        self.on_gpu = self.connection.kind_of(device) != "host"
        options.copy_on_write = int(not self.on_gpu)
        self.handle = c_void_p()
        if pieces is None:
            status = library.pst_table_open(file.handle, ctypes.byref(options), ctypes.byref(self.handle))
        else:
            status = library.pst_table_assemble(self.connection.handle, ctypes.byref(file.handle), 1, pieces, len(pieces),
                                                ctypes.byref(options), ctypes.byref(self.handle))
        self.connection.check(status)
        at_end(self, library.pst_table_close, self.handle, file)
        info = sized(_library.TableInfo)
        self.connection.check(library.pst_table_describe(self.handle, ctypes.byref(info)))
        self.address: int = info.address or 0
        self.nbytes: int = info.bytes

    def place_of(self, index: int) -> int:
        """Where the tensor starts in the table."""
        offset, size = c_uint64(), c_uint64()
        self.connection.check(
            library.pst_table_tensor(self.handle, index, ctypes.byref(offset), ctypes.byref(size)))
        return offset.value

    def residency(self) -> _library.Residency:
        figures = sized(_library.Residency)
        self.connection.check(library.pst_table_residency(self.handle, ctypes.byref(figures)))
        return figures


class Pin:
    """One pinned range of a table."""

    def __init__(self, table: Table, offset: int, nbytes: int, timeout: float | None = None) -> None:
        if _refused:
            make_up()
        _fault(table, offset, nbytes, nanoseconds(timeout))
        self.table = table
        self.exports = 0
        self.stream = c_void_p()  # The device queue that may still read when the pin ends; None: the default one.
        at_end(self, library.pst_unpin, table.handle, offset, nbytes, self.stream, table)

    def export(self, offset: int, nbytes: int, writable: bool = False) -> ctypes.Array[ctypes.c_ubyte]:
        """Part of the range, as an object that exports its memory and keeps it pinned. What is written to it, where that
        is allowed, stays in this process."""
        keeper = _Writable(self, offset, nbytes) if writable and nbytes > 0 else self
        memory = (ctypes.c_ubyte * nbytes).from_address(self.table.address + offset)
        memory.keeper = keeper  # type: ignore[attr-defined]
        self.count(memory)
        return memory

    def count(self, view: object) -> None:
        """An object that refers to this pin is one more view of it."""
        self.exports += 1
        weakref.finalize(view, self._export_ended).atexit = False

    def copy_out(self, offset: int, nbytes: int) -> bytes:
        """Part of the range, in host memory."""
        copy = bytearray(nbytes)
        if nbytes > 0:
            into = (ctypes.c_ubyte * nbytes).from_buffer(copy)
            table = self.table
            table.connection.check(library.pst_copy_out(table.handle, offset, nbytes, into, self.stream))
        return bytes(copy)

    def _export_ended(self) -> None:
        self.exports -= 1


class _Writable:
    """Permission to write to copies of part of a pinned range."""

    def __init__(self, pin: Pin, offset: int, nbytes: int) -> None:
        table = pin.table
        table.connection.check(library.pst_allow_writes(table.handle, offset, nbytes))
        at_end(self, library.pst_end_writes, table.handle, offset, nbytes, pin)


# Ends that the library refused. A deque, because a finalizer may run between any two steps of any thread: one that holds
# a lock included.
_refused: collections.deque[tuple[Any, tuple[Any, ...]]] = collections.deque()


def _end(function: Any, kept: tuple[Any, ...]) -> bool:
    """False: it is to be tried again. A pin stays as long as the driver can't tell of the work behind it."""
    status = function(*kept[:len(function.argtypes)])
    if status in (None, DONE):  # Closing refuses nothing.
        return True
    return library.pst_status_name(status) in (b"unpinned", b"forked", b"invalid_argument")


def make_up() -> None:
    """Ends what could not be ended before. Where the program's queue is refused once more it may be gone: then the
    default one is meant."""
    for _ in range(len(_refused)):
        try:
            function, kept = _refused.popleft()
        except IndexError:  # Another thread is at it.
            return
        if _end(function, kept):
            continue
        if function is library.pst_unpin and kept[3].value is not None:
            kept[3].value = None
            if _end(function, kept):
                continue
        _refused.append((function, kept))


def at_end(owner: object, function: Any, *arguments: Any) -> weakref.finalize[Any, Any]:
    """Calls a function of the library when `owner` is gone, or when the answer is called; once more with the next call
    where that is refused. What is given beyond its arguments is only kept until then. In a child made by fork the library
    does nothing."""

    def run(*kept: Any) -> None:
        if not _end(function, kept):
            _refused.append((function, kept))

    # When the interpreter ends, so does the process: until then somebody may still look at a view.
    end = weakref.finalize(owner, run, *arguments)
    end.atexit = False
    return end


def _fault(table: Table, offset: int, nbytes: int, left: int) -> None:
    while True:
        started = time.monotonic_ns()
        status = library.pst_fault(table.handle, offset, nbytes, min(left, _SLICE_NS))
        if status == DONE:
            return
        if left != FOREVER:
            left = max(0, left - (time.monotonic_ns() - started))
        if left == 0 or library.pst_status_name(status) != b"deadline":
            table.connection.check(status)
