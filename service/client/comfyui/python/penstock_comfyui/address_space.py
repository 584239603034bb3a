# SPDX-License-Identifier: Apache-2.0
"""Address space of this process, given back with its object."""

from __future__ import annotations

import ctypes
import mmap
import weakref

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NORESERVE = 0x4000
_FAILED = ctypes.c_void_p(-1).value


class AddressSpace:
    """Not accessible, unless `writable`: then it is memory that costs nothing until it is touched."""

    def __init__(self, nbytes: int, writable: bool = False) -> None:
        access = mmap.PROT_READ | mmap.PROT_WRITE if writable else 0
        self.nbytes = max(nbytes, 1)
        address = _libc.mmap(None, self.nbytes, access, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, -1, 0)
        if address is None or address == _FAILED:
            raise MemoryError(f"no address space for {nbytes} bytes")
        self.address: int = address
        weakref.finalize(self, _libc.munmap, address, self.nbytes).atexit = False


class FileMapping:
    """A whole file, read-only; changes of it by others are seen."""

    def __init__(self, descriptor: int, nbytes: int) -> None:
        self.nbytes = nbytes
        self.address = 0
        if nbytes == 0:
            return
        address = _libc.mmap(None, nbytes, mmap.PROT_READ, mmap.MAP_PRIVATE, descriptor, 0)
        if address is None or address == _FAILED:
            raise OSError(ctypes.get_errno(), "the file can't be mapped")
        self.address = address
        weakref.finalize(self, _libc.munmap, address, nbytes).atexit = False

    def drop(self) -> None:
        """This process's pages of it; the page cache keeps what it has."""
        if self.nbytes:
            _libc.madvise(self.address, self.nbytes, mmap.MADV_DONTNEED)
