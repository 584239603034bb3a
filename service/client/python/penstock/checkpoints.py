# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint: its tensors, and its page table on a device."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock import _library
from penstock._library import FOREVER, check, library, nanoseconds, sized
from penstock.errors import error
from penstock.tensors import PinnedTensor, PinnedTensors, Tensor

if TYPE_CHECKING:
    from penstock.services import Service


class _Table:
    """The address range of a checkpoint. Pins that outlive the checkpoint keep it open."""

    def __init__(self, service: Service, checkpoint: ctypes.c_void_p) -> None:
        self.service = service
        options = sized(_library.TableOptions)
        options.device = service.device.encode() if service.device else None
        options.copy_on_write = 1
        self.handle = ctypes.c_void_p()
        check(library.pst_table_open(checkpoint, ctypes.byref(options), ctypes.byref(self.handle)), service.handle)
        info = sized(_library.TableInfo)
        check(library.pst_table_describe(self.handle, ctypes.byref(info)), service.handle)
        self.address: int = info.address or 0
        self.bytes: int = info.bytes
        self._pins: set[weakref.finalize[Any, Any]] = set()

    def enlist(self, pin: weakref.finalize[Any, Any]) -> None:
        self._pins = {one for one in self._pins if one.alive} | {pin} if len(self._pins) % 256 == 255 else self._pins
        self._pins.add(pin)

    def _check(self, status: int) -> None:
        check(status, self.service.handle)

    def fault(self, offset: int, size: int, timeout: float | None = None) -> None:
        self._check(library.pst_fault(self.handle, offset, size, nanoseconds(timeout)))

    def unpin(self, offset: int, size: int) -> None:
        # Runs from finalizers, also after the service was closed, when nothing is left to give back.
        if self.handle and self.service.is_open and os.getpid() == self.service.process:
            library.pst_unpin(self.handle, offset, size, None)
            self.service.pin_ended()

    def allow_writes(self, offset: int, size: int) -> None:
        self._check(library.pst_allow_writes(self.handle, offset, size))

    def end_writes(self, offset: int, size: int) -> None:
        if self.handle and self.service.is_open and os.getpid() == self.service.process:
            library.pst_end_writes(self.handle, offset, size)

    def close(self) -> bool:
        """False while pins are alive: the pages they show must stay."""
        if any(pin.alive for pin in self._pins):
            return False
        if self.handle and self.service.is_open:
            library.pst_table_close(self.handle)
        self.handle = ctypes.c_void_p()
        return True


class Checkpoint:
    """A checkpoint that the service holds for this client.

    `tensors` maps names to what the file says of them. `pin(name)` gives a pinned tensor, `pin()` all of them as a
    mapping; use both in a `with`.
    """

    def __init__(self, service: Service, descriptor: int, name: str) -> None:
        self._service = service
        self._process = os.getpid()
        self._file = descriptor
        self._handle = ctypes.c_void_p()
        check(library.pst_open_fd(service.handle, descriptor, name.encode(errors="replace"), ctypes.byref(self._handle)),
              service.handle)
        self._info = sized(_library.CheckpointInfo)
        check(library.pst_checkpoint_describe(self._handle, ctypes.byref(self._info)), service.handle)
        self._tensors = {tensor.name: tensor for tensor in self._read_tensors()}
        self.metadata: Mapping[str, str] = MappingProxyType(dict(self._read_metadata()))
        self._table = _Table(service, self._handle)
        self._places = dict(zip(self._tensors, self._read_places(), strict=True))

    id = property(lambda self: self._info.id.decode())
    format = property(lambda self: self._info.format.decode())
    nbytes = property(lambda self: self._info.bytes)

    @property
    def handle(self) -> int:
        """For the service's questions; 0 while there is no service."""
        check(library.pst_checkpoint_describe(self._handle, ctypes.byref(self._info)), self._service.handle)
        return int(self._info.handle)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return MappingProxyType(self._tensors)

    def _read_tensors(self) -> Iterator[Tensor]:
        for index in range(self._info.tensors):
            info = sized(_library.TensorInfo)
            check(library.pst_tensor_at(self._handle, index, ctypes.byref(info)), self._service.handle)
            yield Tensor(info.name.decode(), info.dtype.decode(), tuple(info.shape[axis] for axis in range(info.rank)),
                         info.bytes, info.offset)

    def _read_metadata(self) -> Iterator[tuple[str, str]]:
        for index in range(self._info.metadata):
            key, value = ctypes.c_char_p(), ctypes.c_char_p()
            check(library.pst_metadata_at(self._handle, index, ctypes.byref(key), ctypes.byref(value)),
                  self._service.handle)
            yield (key.value or b"").decode(), (value.value or b"").decode()

    def _read_places(self) -> Iterator[int]:
        for index in range(self._info.tensors):
            offset, size = ctypes.c_uint64(), ctypes.c_uint64()
            check(library.pst_table_tensor(self._table.handle, index, ctypes.byref(offset), ctypes.byref(size)),
                  self._service.handle)
            yield offset.value

    def _named(self, name: str) -> Tensor:
        self._alive()
        try:
            return self._tensors[name]
        except KeyError:
            raise error("not_found", f"the checkpoint has no tensor {name!r}") from None

    def _alive(self) -> None:
        if os.getpid() != self._process:
            raise error("forked", "this process was forked after the checkpoint was opened", "connect in the child")
        if not self._handle:
            raise error("invalid_argument", "the checkpoint is closed")

    def _pin(self, tensor: Tensor) -> PinnedTensor:
        return PinnedTensor(tensor, self._table, self._places[tensor.name])

    def pin(self, name: str | None = None) -> Any:
        """A `PinnedTensor`, or without a name a mapping of all. OffloadedError: there is no room now."""
        if name is not None:
            return self._pin(self._named(name))
        self._alive()
        # Everything in one request first: then each tensor's own pin costs no message.
        self._table.fault(0, self._table.bytes)
        try:
            return PinnedTensors(list(self._tensors.values()), self._pin)
        finally:
            self._table.unpin(0, self._table.bytes)

    def read(self, name: str) -> bytes:
        """A host copy of the tensor's bytes, whatever the device has room for."""
        tensor = self._named(name)
        try:
            with self._pin(tensor) as pinned:
                return bytes(pinned.memory)
        except Exception as problem:
            if getattr(problem, "kind", "") != "offloaded":
                raise
        data = bytearray()
        while len(data) < tensor.nbytes:
            part = os.pread(self._file, tensor.nbytes - len(data), tensor.offset + len(data))
            if not part:
                raise error("truncated", f"{name}: the file ended at byte {tensor.offset + len(data)}")
            data += part
        return bytes(data)

    def prefetch(self, wait: bool = False, timeout: float | None = None) -> None:
        """Starts bringing the pages in; with `wait` returns when they are resident, or not to be."""
        self._alive()
        limit = nanoseconds(timeout) if wait else FOREVER
        check(library.pst_prefetch(self._table.handle, 0, self._table.bytes, int(wait), limit), self._service.handle)

    def prioritize(self) -> None:
        """The most valuable checkpoint of the device from now on."""
        self._alive()
        check(library.pst_prioritize(self._table.handle), self._service.handle)

    def set_cutoff(self, size: int | None) -> None:
        """Pages at or above `size` bytes are not brought in any more; None: no cut-off."""
        self._alive()
        check(library.pst_set_cutoff(self._table.handle, FOREVER if size is None else size), self._service.handle)

    @property
    def resident_bytes(self) -> int:
        self._alive()
        figures = sized(_library.Residency)
        check(library.pst_table_residency(self._table.handle, ctypes.byref(figures)), self._service.handle)
        return int(min(figures.resident_bytes, self._table.bytes))

    def close(self) -> None:
        """Pinned tensors and their views stay valid."""
        if not self._handle or os.getpid() != self._process:
            return
        handle, self._handle = self._handle, ctypes.c_void_p()
        os.close(self._file)
        if self._table.close() and self._service.is_open:
            library.pst_close(handle)

    def close_table(self) -> bool:
        """For the service's end: False while pins of it are alive."""
        return self._table.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
