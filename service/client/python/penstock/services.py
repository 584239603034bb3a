# SPDX-License-Identifier: Apache-2.0
"""The connection to penstockd."""

from __future__ import annotations

import ctypes
import json
import os
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from penstock import _library
from penstock._library import library, nanoseconds, sized
from penstock._memory import Connection, at_end, gpu_kind
from penstock._pressure import Pressure, PressureThread, pressure_of
from penstock.checkpoints import Checkpoint
from penstock.errors import InvalidArgumentError, NotBuiltError, NotFoundError, error
from penstock.holdings import Holding, entries
from penstock.memory import AssembledTable, HostBuffer, Piece, PrivateTable


@dataclass(frozen=True)
class Device:
    """A device of the service."""

    id: str
    kind: str
    page_bytes: int
    capacity_bytes: int


class Grant:
    """Booked bytes, until release(), the end of its `with`, or the end of its last reference."""

    def __init__(self, connection: Connection, demand: _library.Demand) -> None:
        handle = c_void_p()
        connection.check(library.pst_admit(connection.handle, ctypes.byref(demand), ctypes.byref(handle)))
        self.work_bytes: int = library.pst_grant_work_bytes(handle)
        self._release = at_end(self, library.pst_grant_release, handle, connection)

    def release(self) -> None:
        self._release()

    def __enter__(self) -> Grant:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Service:
    """One client of the service; from `penstock.connect`. Usable from several threads."""

    def __init__(self, socket: str | os.PathLike[str] | None, device: str | None, name: str | None = None,
                 answer_timeout: float | None = None) -> None:
        self.device = device
        self._connection: Connection | None = Connection(socket, name, answer_timeout)
        self._checkpoints: weakref.WeakSet[Checkpoint] = weakref.WeakSet()
        self._pressure: PressureThread | None = None
        # A GPU that the service does not have may be one of this process, with copies of its own.
        if device is not None and gpu_kind(device) is None and all(device not in (one.id, one.kind) for one in self.devices):
            self.close()
            raise NotFoundError(f"the service has no device {device}")

    @property
    def devices(self) -> list[Device]:
        return [Device(info.id.decode(), info.kind.decode(), info.page_bytes, info.capacity_bytes)
                for info in self._open().devices()]

    def use_device(self) -> None:
        """For programs without torch or the like, which do the same: loads the driver of the device, and makes its primary
        context the calling thread's, for as long as the process lives. On host memory nothing has to be done."""
        connection = self._open()
        device = self.device.encode() if self.device else None
        connection.check(library.pst_use_device(connection.handle, device))

    def run_revokes(self) -> None:
        """On a GPU: gives pages back that the service waits for. Pins and their ends do so by themselves."""
        connection = self._open()
        connection.check(library.pst_run_revokes(connection.handle))

    def set_idle(self, idle: bool) -> None:
        """On a GPU: nothing of this program runs there (said after a synchronise), so that pages without pins may be taken
        at any time. The next pin ends it."""
        connection = self._open()
        connection.check(library.pst_idle(connection.handle, int(idle)))

    def open(self, source: Any, alignment: int = 1, device: str | None = None) -> Checkpoint:
        """Opens a checkpoint on a device, by default this connection's: a path, or a file object open for reading in binary.
        The caller's rights decide.

        `alignment`: where tensors must start at multiples of it, in bytes, and don't in the file, pages are put together
        so; they are shared with those who ask for the same alignment.
        """
        connection = self._open()
        descriptor, name = _open_source(source)
        try:
            checkpoint = Checkpoint(connection, descriptor, os.path.basename(name), device or self.device, alignment)
        except BaseException:
            os.close(descriptor)
            raise
        self._checkpoints.add(checkpoint)
        return checkpoint

    def admit(self, weights: int = 0, work: int = 0, minimum_work: int = 0, timeout: float | None = None,
              device: str | None = None) -> Grant:
        """Books bytes for a `with`, by default on this connection's device; waits its turn. A refusal's class says why, its
        text the numbers."""
        demand = sized(_library.Demand)
        named = device or self.device
        demand.device = named.encode() if named else None
        demand.weights_bytes, demand.work_bytes, demand.minimum_work_bytes = weights, work, minimum_work
        demand.timeout_ns = nanoseconds(timeout)
        return Grant(self._open(), demand)

    def free(self, nbytes: int, timeout: float | None = None, device: str | None = None) -> int:
        """Gives pages of this client back, up to `nbytes`, on a device, by default this connection's; returns the bytes that it
        really got."""
        connection = self._open()
        freed = c_uint64()
        named = device or self.device
        connection.check(library.pst_free(connection.handle, named.encode() if named else None, nbytes, nanoseconds(timeout), ctypes.byref(freed)))
        return freed.value

    def private_table(self, nbytes: int, device: str | None = None) -> PrivateTable:
        """Pages on a device, by default this connection's, that this client fills itself."""
        return PrivateTable(self._open(), nbytes, device or self.device)

    def assembled_table(self, descriptors: Sequence[int], pieces: Iterable[Piece],
                        device: str | None = None) -> AssembledTable:
        """Pages in a layout of the caller's, filled by the service from files that are open for reading."""
        return AssembledTable(self._open(), descriptors, pieces, device or self.device)

    def host_buffer(self, nbytes_max: int) -> HostBuffer:
        """Page-locked host memory that can grow to `nbytes_max`; costs nothing until it does."""
        return HostBuffer(self._open(), nbytes_max)

    def report(self, holdings: Sequence[Holding], timeout: float | None = 1.0) -> None:
        """What this client holds, for `penstock status`: in place of what it reported before. What is not named counts as
        not measured. Ends with the connection, so say it now and then."""
        connection = self._open()
        connection.check(library.pst_report_holdings(connection.handle, entries(holdings), len(holdings),
                                                     nanoseconds(timeout)))

    def query(self, what: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """One of the service's questions: status, explain, load, evict, doctor."""
        connection = self._open()
        text = c_void_p()
        words = json.dumps(arguments or {}).encode()
        connection.check(library.pst_query(connection.handle, what.encode(), words, ctypes.byref(text)))
        try:
            answer: dict[str, Any] = json.loads(ctypes.string_at(text.value or 0))
        finally:
            library.pst_release_text(text)
        return answer

    def status(self) -> dict[str, Any]:
        """As `penstock status --json`."""
        return self.query("status")

    def evict(self, what: Checkpoint | str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Takes the pages of a checkpoint back: an open one, an id or a file. None: of all, for administrators."""
        if what is None:
            return self.query("evict", {"all": True})
        if isinstance(what, Checkpoint):
            return self.query("evict", {"checkpoint": what.handle})
        if isinstance(what, str) and re.fullmatch("[0-9a-f]{12}", what):
            return self.query("evict", {"id": what})
        with self.open(what) as checkpoint:
            return self.query("evict", {"checkpoint": checkpoint.handle})

    def on_pressure(self, callback: Callable[[Pressure], object] | None) -> None:
        """`callback` is called on a thread of the library; None: no more."""
        connection = self._open()
        if self._pressure is None:
            self._pressure = PressureThread(connection)
        self._pressure.callback = callback

    def next_pressure(self) -> Pressure | None:
        """The last that the service said since the last call, without waiting. Not beside on_pressure()."""
        connection = self._open()
        found = None
        event = sized(_library.Event)
        while library.pst_next_event(connection.handle, ctypes.byref(event)) == _library.DONE:
            found = pressure_of(event) or found
        return found

    def close(self) -> None:
        """Closes everything; the connection lives on while views of pinned tensors do."""
        if self._connection is None:
            return
        for checkpoint in list(self._checkpoints):
            checkpoint.close()
        if self._pressure is not None:
            self._pressure.stop()
        self._connection = self._pressure = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pressure", None) is not None:
            self.close()

    def _open(self) -> Connection:
        if self._connection is None:
            raise InvalidArgumentError("the service is closed")
        self._connection.check_process()
        return self._connection


def _open_source(source: Any) -> tuple[int, str]:
    """A descriptor of our own, and a name for people."""
    try:
        if hasattr(source, "fileno"):
            return os.dup(source.fileno()), str(getattr(source, "name", ""))
        if os.path.isdir(source) or os.fsdecode(source).endswith(".safetensors.index.json"):
            raise NotBuiltError(f"{os.fspath(source)}: models of several files are not built yet",
                                "open their .safetensors files one by one")
        return os.open(source, os.O_RDONLY | os.O_CLOEXEC), os.fsdecode(source)
    except OSError as problem:
        kinds = {2: "not_found", 13: "not_permitted"}
        raise error(kinds.get(problem.errno or 0, "io_error"), f"{source}: {problem.strerror}") from problem


def connect(socket: str | os.PathLike[str] | None = None, device: str | None = None,
            name: str | None = None, answer_timeout: float | None = None) -> Service:
    """Connects to penstockd: $PENSTOCK_SOCKET or /run/penstock/penstock.sock unless told otherwise. `name` is shown by
    `penstock status`; None: the process's own. `answer_timeout`: seconds that a call waits for a service that is silent,
    beyond the call's own timeout where it has one; None: up to two minutes.

    Raises UnreachableError, ProtocolMismatchError, NotPermittedError.
    """
    return Service(socket, device, name, answer_timeout)
