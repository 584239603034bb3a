# SPDX-License-Identifier: Apache-2.0
"""The connection to penstockd."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock import _library
from penstock._library import EVENT_CALLBACK, check, library, nanoseconds, sized
from penstock.checkpoints import Checkpoint
from penstock.errors import PenstockError, error

_EVENTS_CALLBACK = 1
_EVENT_PRESSURE = 1
_LEVELS = ("calm", "some", "full")


@dataclass(frozen=True)
class Device:
    """A device of the service."""

    id: str
    kind: str
    page_bytes: int
    capacity_bytes: int


@dataclass(frozen=True)
class Pressure:
    """What the service says under memory pressure: `level` calm, some or full; what it would like back, in bytes."""

    level: str
    wanted_bytes: int


@dataclass(frozen=True)
class Grant:
    """Booked bytes."""

    work_bytes: int


class Service:
    """One client of the service; from `penstock.connect`. Usable from several threads."""

    def __init__(self, socket: str | None, device: str | None) -> None:
        self.process = os.getpid()
        self.device = device
        self._on_pressure: Callable[[Pressure], object] | None = None
        self._checkpoints: list[Checkpoint] = []
        self._closing = False
        # Kept as long as the library may call it.
        self._callback = EVENT_CALLBACK(self._event)
        options = sized(_library.ConnectOptions)
        options.socket = os.fsencode(socket) if socket is not None else None
        options.event_delivery = _EVENTS_CALLBACK
        options.callback = ctypes.cast(self._callback, ctypes.c_void_p)
        self.handle = ctypes.c_void_p()
        check(library.pst_connect(ctypes.byref(options), ctypes.byref(self.handle)), None)
        if device is not None and all(one.id != device for one in self.devices):
            self.close()
            raise error("not_found", f"the service has no device {device}")

    @property
    def is_open(self) -> bool:
        return bool(self.handle)

    def _alive(self) -> ctypes.c_void_p:
        if os.getpid() != self.process:
            raise error("forked", "this process was forked after it connected", "connect in the child")
        if not self.handle or self._closing:
            raise error("invalid_argument", "the service is closed")
        return self.handle

    def _event(self, event: Any, _context: Any) -> None:
        # On the library's thread. An exception has nowhere to go but to the interpreter's hook.
        told = event.contents
        if told.kind == _EVENT_PRESSURE and self._on_pressure is not None:
            self._on_pressure(Pressure(_LEVELS[min(told.level, 2)], told.wanted_bytes))

    @property
    def devices(self) -> list[Device]:
        handle = self._alive()
        count = ctypes.c_uint32()
        check(library.pst_device_count(handle, ctypes.byref(count)), handle)
        found = []
        for index in range(count.value):
            info = sized(_library.DeviceInfo)
            check(library.pst_device_at(handle, index, ctypes.byref(info)), handle)
            found.append(Device(info.id.decode(), info.kind.decode(), info.page_bytes, info.capacity_bytes))
        return found

    def open(self, source: Any) -> Checkpoint:
        """Opens a checkpoint: a path, or a file object open for reading in binary. The caller's rights decide."""
        self._alive()
        try:
            if hasattr(source, "fileno"):
                descriptor, name = os.dup(source.fileno()), str(getattr(source, "name", ""))
            else:
                descriptor, name = os.open(source, os.O_RDONLY | os.O_CLOEXEC), os.fsdecode(source)
        except OSError as problem:
            kinds = {2: "not_found", 13: "not_permitted"}
            raise error(kinds.get(problem.errno or 0, "io_error"), f"{source}: {problem.strerror}") from problem
        try:
            checkpoint = Checkpoint(self, descriptor, os.path.basename(name))
        except BaseException:
            os.close(descriptor)
            raise
        self._checkpoints.append(checkpoint)
        return checkpoint

    @contextmanager
    def admit(self, weights: int = 0, work: int = 0, minimum_work: int = 0,
              timeout: float | None = None) -> Iterator[Grant]:
        """Books bytes while the `with` runs; waits its turn. A refusal's class says why, its text the numbers."""
        handle = self._alive()
        demand = sized(_library.Demand)
        demand.device = self.device.encode() if self.device else None
        demand.weights_bytes, demand.work_bytes, demand.minimum_work_bytes = weights, work, minimum_work
        demand.timeout_ns = nanoseconds(timeout)
        grant = ctypes.c_void_p()
        check(library.pst_admit(handle, ctypes.byref(demand), ctypes.byref(grant)), handle)
        try:
            yield Grant(library.pst_grant_work_bytes(grant))
        finally:
            if self.is_open:
                library.pst_grant_release(grant)

    def free(self, size: int, timeout: float | None = None) -> int:
        """Gives pages of this client back, up to `size` bytes; returns the bytes that the device really got."""
        handle = self._alive()
        freed = ctypes.c_uint64()
        device = self.device.encode() if self.device else None
        check(library.pst_free(handle, device, size, nanoseconds(timeout), ctypes.byref(freed)), handle)
        return freed.value

    def query(self, what: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """One of the service's questions: status, explain, load, evict, doctor."""
        handle = self._alive()
        text = ctypes.c_void_p()
        words = json.dumps(arguments or {}).encode()
        check(library.pst_query(handle, what.encode(), words, ctypes.byref(text)), handle)
        try:
            answer: dict[str, Any] = json.loads(ctypes.string_at(text.value or 0))
        finally:
            library.pst_release_text(text)
        return answer

    def status(self) -> dict[str, Any]:
        """As `penstock status --json`."""
        return self.query("status")

    def evict(self, what: Checkpoint | str | None = None) -> dict[str, Any]:
        """Takes the pages of a checkpoint back (an object, or its id); None: of all, for administrators."""
        if what is None:
            return self.query("evict", {"all": True})
        if isinstance(what, Checkpoint):
            return self.query("evict", {"checkpoint": what.handle})
        return self.query("evict", {"id": what})

    def on_pressure(self, callback: Callable[[Pressure], object] | None) -> None:
        """`callback` is called on the library's thread; it must not wait for the service."""
        self._on_pressure = callback

    def pin_ended(self) -> None:
        """Called by tables: after close(), the last pin's end closes the connection."""
        if self._closing:
            self._finish()

    def _finish(self) -> None:
        for checkpoint in self._checkpoints:
            if not checkpoint.close_table():
                return
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle:
            library.pst_disconnect(handle)

    def close(self) -> None:
        """Closes everything; the connection lives on while views of pinned tensors do."""
        if self._closing or os.getpid() != self.process:
            return
        for checkpoint in self._checkpoints:
            checkpoint.close()
        self._closing = True
        self._finish()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(socket: str | None = None, device: str | None = None) -> Service:
    """Connects to penstockd: $PENSTOCK_SOCKET or /run/penstock/penstock.sock unless told otherwise.

    Raises UnreachableError, ProtocolMismatchError, NotPermittedError.
    """
    return Service(socket, device)


__all__ = ["Device", "Grant", "PenstockError", "Pressure", "Service", "connect"]
