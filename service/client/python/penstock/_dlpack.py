# SPDX-License-Identifier: Apache-2.0
"""DLPack: memory handed to another array library in the same process, without a copy.

The structs are those of dlpack.h, versions 0.8 (DLManagedTensor) and 1.1 (DLManagedTensorVersioned).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

from penstock._dtypes import DTYPES, FIRST_8_BIT_FLOAT

CPU = (1, 0)  # kDLCPU
VERSION = (1, 1)
FLAG_READ_ONLY = 1
FLAG_IS_COPIED = 2


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _Tensor)]


_CALL = ctypes.CFUNCTYPE(None, c_void_p)
# What is handed out, by the address of its struct: struct, shape, strides, memory.
_lent: dict[int, tuple[Any, ...]] = {}


def _delete(managed: int) -> None:
    _lent.pop(managed, None)


def _destroy_capsule(capsule: int) -> None:
    # A capsule that nobody took still has its first name; one that was taken is the taker's to delete.
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):
            _lent.pop(_get_pointer(capsule, name), None)


_deleter = _CALL(_delete)
_destructor = _CALL(_destroy_capsule)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [c_void_p, c_char_p, _CALL]
# As addresses: the capsule is being destroyed, and must not be referred to again.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def capsule(memory: Any, dtype: str, shape: tuple[int, ...], max_version: tuple[int, int] | None,
            copied: bool) -> Any:
    """A capsule that keeps `memory`. BufferError when DLPack, or the taker's version of it, lacks the dtype."""
    versioned = max_version is not None and max_version[0] >= VERSION[0]
    code = DTYPES[dtype].dlpack if dtype in DTYPES else -1
    if code < 0 or (code >= FIRST_8_BIT_FLOAT and (not versioned or tuple(max_version or ()) < VERSION)):
        raise BufferError(f"DLPack has no {dtype}, or this taker's version of it doesn't")
    if copied:
        memory = (ctypes.c_ubyte * len(memory)).from_buffer_copy(memory)
    dims = (c_int64 * max(len(shape), 1))(*shape)
    strides = (c_int64 * max(len(shape), 1))(*_strides(shape))
    tensor = _Tensor(ctypes.addressof(memory), *CPU, len(shape), code, DTYPES[dtype].bits, 1, dims, strides, 0)
    deleter = ctypes.cast(_deleter, c_void_p)
    managed: Any
    if versioned:
        flags = FLAG_IS_COPIED if copied else FLAG_READ_ONLY
        managed = _ManagedVersioned(*VERSION, None, deleter, flags, tensor)
    else:
        managed = _Managed(tensor, None, deleter)
    address = ctypes.addressof(managed)
    _lent[address] = (managed, dims, strides, memory)
    return _new(address, b"dltensor_versioned" if versioned else b"dltensor", _destructor)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """In elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
