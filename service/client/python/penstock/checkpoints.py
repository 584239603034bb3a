# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint: its tensors, and its page table on a device."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, overload

from penstock._library import FOREVER, ManifestEntry, TensorInfo, library, nanoseconds, sized
from penstock._memory import Connection, OpenFile, Pin, Table
from penstock.errors import (
    DeviceUnhealthyError, InvalidArgumentError, NotFoundError, OffloadedError, TruncatedError, UnsupportedError)
from penstock.tensors import PinnedTensor, PinnedTensors, Tensor


class Checkpoint:
    """A checkpoint that the service holds for this client.

    `tensors` maps names to what the file says of them. `pin(name)` gives a pinned tensor, `pin()` all of them as a
    mapping; use both in a `with`.
    """

    def __init__(self, connection: Connection, descriptor: int, name: str, device: str | None,
                 alignment: int = 1) -> None:
        self.name = name
        self._connection = connection
        self._file: OpenFile | None = OpenFile(connection, descriptor, name)
        info = self._file.describe()
        self.id: str = info.id.decode()
        self.format: str = info.format.decode()
        self.nbytes: int = info.bytes
        self.tensors: Mapping[str, Tensor] = MappingProxyType(
            {one.name: one for one in self._read_tensors(self._file, info.tensors)})
        self.metadata: Mapping[str, str] = MappingProxyType(dict(self._read_metadata(self._file, info.metadata)))
        self._device = device
        self._alignment = alignment
        self._table: Table | None = None
        self._places: dict[str, int] = {}
        # A process that has not begun to use the GPU may still look at the file.
        with contextlib.suppress(UnsupportedError):
            self._open_table()
        # Last: from now on it is ours to close. For bytes that find no room on the device.
        self._descriptor = descriptor

    @property
    def handle(self) -> int:
        """For the service's questions; 0 while there is no service."""
        return int(self._open_file().describe().handle)

    @overload
    def pin(self, name: str, timeout: float | None = None) -> PinnedTensor: ...
    @overload
    def pin(self, name: None = None, timeout: float | None = None) -> PinnedTensors: ...
    def pin(self, name: str | None = None, timeout: float | None = None) -> PinnedTensor | PinnedTensors:
        """A `PinnedTensor`, or without a name a mapping of all. OffloadedError: there is no room now."""
        table = self._open_table()
        if name is not None:
            tensor = self._named(name)
            place = self._places[name]
            return PinnedTensor(tensor, Pin(table, place, tensor.nbytes, timeout), place)
        pin = Pin(table, 0, table.nbytes, timeout)
        return PinnedTensors({one.name: PinnedTensor(one, pin, self._places[one.name]) for one in self.tensors.values()})

    def read(self, name: str) -> bytes:
        """A host copy of the tensor's bytes, whatever the device has room for."""
        tensor = self._named(name)
        try:
            with self.pin(name) as pinned:
                return pinned.tobytes()
        except (OffloadedError, UnsupportedError, DeviceUnhealthyError):
            return self._stream(tensor)

    def prefetch(self, wait: bool = False, timeout: float | None = None) -> None:
        """Starts bringing the pages in; with `wait` returns when they are resident, or not to be."""
        table = self._open_table()
        limit = nanoseconds(timeout) if wait else FOREVER
        self._connection.check(library.pst_prefetch(table.handle, 0, table.nbytes, int(wait), limit))

    def prioritize(self) -> None:
        """The most valuable checkpoint of the device from now on."""
        self._connection.check(library.pst_prioritize(self._open_table().handle))

    def set_cutoff(self, nbytes: int | None) -> None:
        """Pages at or above `nbytes` are not brought in any more; None: no cut-off."""
        limit = FOREVER if nbytes is None else nbytes
        self._connection.check(library.pst_set_cutoff(self._open_table().handle, limit))

    @property
    def resident_bytes(self) -> int:
        """Bytes of the checkpoint that lie on the device."""
        table = self._open_table()
        return int(min(table.residency().resident_bytes, table.nbytes))

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pages that this process pins, whole pages."""
        return int(self._open_table().residency().pinned_bytes)

    def close(self) -> None:
        """Pinned tensors and their views stay valid, and keep the pages that they show."""
        if self._file is None:
            return
        self._file = self._table = None
        os.close(self._descriptor)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    def __repr__(self) -> str:
        state = "open" if self._file is not None else "closed"
        return f"<{state} checkpoint {self.name} {self.id}, {len(self.tensors)} tensors>"

    def _open_file(self) -> OpenFile:
        self._connection.check_process()
        if self._file is None:
            raise InvalidArgumentError("the checkpoint is closed")
        return self._file

    def _open_table(self) -> Table:
        file = self._open_file()
        if self._table is None:  # Twice at once: both are the same table.
            tensors = self.tensors.values()
            if all(one.offset % self._alignment == 0 for one in tensors if one.nbytes):
                table = Table(file, self._device)
                self._places = {one: table.place_of(index) for index, one in enumerate(self.tensors)}
            else:
                table, self._places = _assembled(file, self._device, tensors, self._alignment)
            self._table = table
        return self._table

    @property
    def on_gpu(self) -> bool:
        """Its pages lie in the memory of a GPU."""
        return self._connection.kind_of(self._device) != "host"

    def _named(self, name: str) -> Tensor:
        self._open_file()
        tensor = self.tensors.get(name)
        if tensor is None:
            raise NotFoundError(f"the checkpoint has no tensor {name!r}")
        return tensor

    def _stream(self, tensor: Tensor) -> bytes:
        data = bytearray()
        while len(data) < tensor.nbytes:
            part = os.pread(self._descriptor, tensor.nbytes - len(data), tensor.offset + len(data))
            if not part:
                raise TruncatedError(f"{tensor.name}: the file ended at byte {tensor.offset + len(data)}")
            data += part
        return bytes(data)

    def _read_tensors(self, file: OpenFile, count: int) -> Iterator[Tensor]:
        for index in range(count):
            info: Any = sized(TensorInfo)
            self._connection.check(library.pst_tensor_at(file.handle, index, ctypes.byref(info)))
            yield Tensor(info.name.decode(), info.dtype.decode(), tuple(info.shape[axis] for axis in range(info.rank)), info.bytes, info.offset)

    def _read_metadata(self, file: OpenFile, count: int) -> Iterator[tuple[str, str]]:
        for index in range(count):
            key, value = ctypes.c_char_p(), ctypes.c_char_p()
            self._connection.check(
                library.pst_metadata_at(file.handle, index, ctypes.byref(key), ctypes.byref(value)))
            yield (key.value or b"").decode(), (value.value or b"").decode()


def _assembled(file: OpenFile, device: str | None, tensors: Iterable[Tensor],
               alignment: int) -> tuple[Table, dict[str, int]]:
    """A table of the file's tensors in their order, each at a multiple of the alignment. Shared by all who ask for the
    same one."""
    places, pieces, end = {}, [], 0
    for one in sorted(tensors, key=lambda tensor: tensor.offset):
        start = -(-end // alignment) * alignment
        places[one.name] = start
        if one.nbytes:
            dtype = one.dtype.encode()
            pieces.append(ManifestEntry(start, one.offset, one.nbytes, 0, 0, dtype, dtype, FOREVER))
        end = start + one.nbytes
    return Table(file, device, (ManifestEntry * len(pieces))(*pieces)), places
