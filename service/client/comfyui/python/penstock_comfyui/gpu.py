# SPDX-License-Identifier: Apache-2.0
"""The few calls of a GPU's driver that the pager seam makes itself: copies, in the calling thread's context. A driver is
used when this process has loaded it, and is never loaded."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import string
import sys
from typing import Any

_LIBRARIES = {"cuda": ("libcuda.so.1",), "hip": ("libamdhip64.so.7", "libamdhip64.so.6")}
_NAMES = {
    "cuda": ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuDeviceGetUuid", "cuCtxSynchronize",
             "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostRegister_v2", "cuMemHostUnregister"),
    "hip": ("hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipStreamSynchronize", "hipDeviceGetUuid", "hipDeviceSynchronize",
            "hipMalloc", "hipFree", "hipHostRegister", "hipHostUnregister"),
}

_PORTABLE = 1
_REGISTERED = 712


class Driver:
    def __init__(self, vendor: str, library: ctypes.CDLL) -> None:
        self.vendor = vendor
        (self._copy_in, self._copy_out, self._wait, self._uuid, self._wait_all, self._allocate,
         self._free, self._register, self._unregister) = (getattr(library, name) for name in _NAMES[vendor])
        self._copy_in.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._copy_out.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
        self._wait.argtypes = [ctypes.c_void_p]
        self._uuid.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._free.argtypes = [ctypes.c_uint64]
        self._register.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        self._unregister.argtypes = [ctypes.c_void_p]

    def copy_in(self, source: int, destination: int, nbytes: int, stream: int = 0) -> None:
        """In the order of the stream. Memory that isn't page-locked may change when this returns."""
        self._check(self._copy_in(destination, source, nbytes, stream or None), "copy to")

    def copy_out(self, source: int, destination: int, nbytes: int, stream: int = 0) -> None:
        """The bytes are there when this returns."""
        self._check(self._copy_out(destination, source, nbytes, stream or None), "copy from")
        self._check(self._wait(stream or None), "wait for")

    def wait(self) -> bool:
        """For all work of the calling thread's context. Not while a stream captures. False: it has failed."""
        return bool(self._wait_all() == 0)

    def allocate(self, nbytes: int) -> int:
        """Memory of this process alone. RuntimeError: there is none."""
        address = ctypes.c_uint64()
        self._check(self._allocate(ctypes.byref(address), nbytes), "get memory of")
        return address.value

    def free(self, address: int) -> None:
        """Waits for work that uses it."""
        self._free(address)

    def register(self, address: int, nbytes: int) -> bool:
        """Host memory, for all contexts. False: some of it is already. RuntimeError: it can't be."""
        status = self._register(address, nbytes, _PORTABLE)
        if status != _REGISTERED:
            self._check(status, "register memory with")
        return bool(status == 0)

    def unregister(self, address: int) -> bool:
        """Host memory that starts there and may have been registered, with whatever size. False: it wasn't."""
        return bool(self._unregister(address) == 0)

    def digits(self, ordinal: int) -> str:
        """Eight hex digits of a GPU's UUID, as its id at the service has them; empty: it has none."""
        uuid = (ctypes.c_ubyte * 16)()
        if self._uuid(uuid, ordinal) != 0:
            return ""
        content = bytes(uuid)
        if len(set(content)) == 1:
            return ""
        if all(chr(byte) in string.hexdigits for byte in content):  # AMD's are often text.
            return f"{int(content[:8], 16) ^ int(content[8:], 16):08x}"
        return content[:4].hex()

    def _check(self, status: int, what: str) -> None:
        if status != 0:
            raise RuntimeError(f"penstock: the driver can't {what} the GPU: {self.vendor} error {status}")


@functools.cache
def _loaded(vendor: str, _process: int) -> Driver | None:
    for name in _LIBRARIES[vendor]:
        try:
            return Driver(vendor, ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW))
        except (OSError, AttributeError):
            continue
    return None


def driver(vendor: str) -> Driver | None:
    """None: this process hasn't loaded it, or it lacks what is needed."""
    found = _loaded(vendor, os.getpid())
    if found is None:
        _loaded.cache_clear()  # It may come.
    return found


def current_stream(index: int) -> int:
    """Of the calling thread; 0 is the default one."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.current_stream(index).cuda_stream)


def current(index: int) -> contextlib.AbstractContextManager[Any]:
    """The GPU is the calling thread's for a `with`, as torch counts them."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_available():
        return contextlib.nullcontext()
    guard: contextlib.AbstractContextManager[Any] = cuda.device(index)
    return guard


def loaded() -> Driver | None:
    """Of whatever vendor this process uses."""
    return driver("cuda") or driver("hip")


class Bytes:
    """Of a GPU, for torch, which keeps this as long as it shows them."""

    def __init__(self, address: int, size: int, keeper: Any) -> None:
        self.keeper = keeper
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address if size else 0, False),
                                         "strides": None, "version": 3}
