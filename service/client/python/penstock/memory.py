# SPDX-License-Identifier: Apache-2.0
"""Page tables of a client's own layout, private or put together from files, and page-locked host buffers that grow in place.

All end with their last reference. Addresses stay the same while the object lives, also when the service goes and comes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from penstock import _library
from penstock._library import library, nanoseconds, sized
from penstock._memory import Connection, OpenFile, at_end
from penstock.errors import InvalidArgumentError, OffloadedError


class PageTable:
    """`address` is fixed, `nbytes` of it are only address space until they are faulted in."""

    def __init__(self, connection: Connection, handle: c_void_p, *kept: Any) -> None:
        self._connection = connection
        self.handle = handle
        self._close = at_end(self, library.pst_table_close, self.handle, connection, *kept)
        info = sized(_library.TableInfo)
        connection.check(library.pst_table_describe(self.handle, ctypes.byref(info)))
        self.address: int = info.address or 0
        self.nbytes: int = info.bytes
        self.page_bytes: int = info.page_bytes
        self.pages: int = info.pages

    def fault(self, offset: int, nbytes: int, timeout: float | None = None) -> bool:
        """Pins the range. False: there is no room for it now."""
        status = library.pst_fault(self.handle, offset, nbytes, nanoseconds(timeout))
        try:
            self._connection.check(status)
        except OffloadedError:
            return False
        return True

    def unpin(self, offset: int, nbytes: int, stream: int = 0) -> None:
        """`stream`: where device work that uses the range is queued. UnpinnedError: a page of the range has no pin."""
        self._connection.check(library.pst_unpin(self.handle, offset, nbytes, stream or None))

    def serials(self, offset: int, nbytes: int) -> ctypes.Array[c_uint64]:
        """One a page of the range; 0: not resident."""
        if not 0 <= offset <= offset + nbytes <= self.nbytes:
            raise InvalidArgumentError(f"{nbytes} bytes at {offset} leave the table of {self.nbytes}")
        pages = (offset + nbytes - 1) // self.page_bytes - offset // self.page_bytes + 1 if nbytes > 0 else 0
        found, count = (c_uint64 * pages)(), c_size_t()
        self._connection.check(library.pst_serials(self.handle, offset, nbytes, found, pages, ctypes.byref(count)))
        return found

    def wanted(self) -> Sequence[int]:
        """Pages that the service asked back while they were pinned."""
        pages, count = (c_uint32 * self.pages)(), c_size_t()
        self._connection.check(library.pst_table_wanted(self.handle, pages, self.pages, ctypes.byref(count)))
        return pages[:count.value]

    def prioritize(self) -> None:
        self._connection.check(library.pst_prioritize(self.handle))

    def set_cutoff(self, nbytes: int | None) -> None:
        """Pages at or above `nbytes` are not brought in any more; None: no cut-off."""
        limit = _library.FOREVER if nbytes is None else nbytes
        self._connection.check(library.pst_set_cutoff(self.handle, limit))

    def free(self, nbytes: int, timeout: float | None = None) -> int:
        """Gives unpinned pages back, from the end of the table; the bytes that the device really got."""
        freed = c_uint64()
        self._connection.check(
            library.pst_table_free(self.handle, nbytes, nanoseconds(timeout), ctypes.byref(freed)))
        return freed.value

    @property
    def mapped_bytes(self) -> int:
        """Bytes of its pages that are here, others' included."""
        return int(self.residency().mapped_bytes)

    def residency(self) -> _library.Residency:
        figures = sized(_library.Residency)
        self._connection.check(library.pst_table_residency(self.handle, ctypes.byref(figures)))
        return figures

    def close(self) -> None:
        self._close()


class PrivateTable(PageTable):
    """Its content is this client's. An evicted page comes back zero, with another serial."""

    def __init__(self, connection: Connection, nbytes: int, device: str | None = None) -> None:
        options = sized(_library.TableOptions)
        options.device = device.encode() if device is not None else None
        handle = c_void_p()
        connection.check(library.pst_table_anonymous(connection.handle, nbytes, ctypes.byref(options), ctypes.byref(handle)))
        super().__init__(connection, handle)


class Piece(NamedTuple):
    """Bytes of a file, and where they lie in a table."""

    place: int
    file: int  # Index into the table's descriptors.
    offset: int
    nbytes: int
    stored: str  # Dtypes by their safetensors names; others than the stored one are converted by the service.
    wanted: str


class AssembledTable(PageTable):
    """Put together by the service from `pieces` of safetensors files, read-only, and shared with all who ask for the same
    ones. Pages can be made private to this process, and are writable then until they are evicted."""

    def __init__(self, connection: Connection, descriptors: Sequence[int], pieces: Iterable[Piece],
                 device: str | None = None) -> None:
        files = [OpenFile(connection, one, _name_of(one)) for one in descriptors]
        entries = [_library.ManifestEntry(one.place, one.offset, one.nbytes, one.file, 0, one.stored.encode(),
                                          one.wanted.encode(), _library.FOREVER) for one in pieces]
        options = sized(_library.TableOptions)
        options.device = device.encode() if device is not None else None
        handle = c_void_p()
        connection.check(library.pst_table_assemble(
            connection.handle, (c_void_p * len(files))(*(one.handle for one in files)), len(files),
            (_library.ManifestEntry * len(entries))(*entries), len(entries), ctypes.byref(options), ctypes.byref(handle)))
        super().__init__(connection, handle, files)
        self._files = files
        self.checkpoints = tuple(one.describe().id.decode() for one in files)

    @property
    def handles(self) -> list[int]:
        """Of its checkpoints, for the service's questions."""
        return [int(one.describe().handle) for one in self._files]

    def make_private(self, offset: int, nbytes: int, timeout: float | None = None) -> bool:
        """The pages of a pinned range become this process's own, beginning as copies. False: there is no room for that."""
        status = library.pst_make_private(self.handle, offset, nbytes, nanoseconds(timeout))
        try:
            self._connection.check(status)
        except OffloadedError:
            return False
        return True


def _name_of(descriptor: int) -> str:
    """For people: the file's name where it was opened."""
    try:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return f"descriptor {descriptor}"  # It is refused, or there is no /proc.


class HostBuffer:
    """Page-locked memory out of the node's budget, in `nbytes_max` bytes of address space."""

    def __init__(self, connection: Connection, nbytes_max: int) -> None:
        self._connection = connection
        self.nbytes_max = nbytes_max
        self.handle = c_void_p()
        connection.check(
            library.pst_host_buffer_reserve(connection.handle, nbytes_max, ctypes.byref(self.handle)))
        self._close = at_end(self, library.pst_host_buffer_close, self.handle, connection)
        self.address: int = library.pst_host_buffer_address(self.handle) or 0

    def grow(self, nbytes: int) -> None:
        """ExhaustedError, QuotaError and the like: the budget has no more."""
        self._connection.check(library.pst_host_buffer_grow(self.handle, nbytes))

    def read(self, offset: int, file: int, file_offset: int, nbytes: int, timeout: float | None = None) -> None:
        """Has the service read bytes of a file, by its descriptor, into the buffer. With an exception they are undefined."""
        self._connection.check(
            library.pst_host_buffer_read(self.handle, offset, file, file_offset, nbytes, nanoseconds(timeout)))

    def truncate(self, nbytes: int) -> None:
        self._connection.check(library.pst_host_buffer_truncate(self.handle, nbytes))

    def close(self) -> None:
        self._close()
