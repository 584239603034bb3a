# SPDX-License-Identifier: Apache-2.0
"""libpenstock through ctypes: structs, prototypes, and statuses turned into exceptions. The GIL is free in each call."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import error

FOREVER = (1 << 64) - 1
DONE = 0


class ConnectOptions(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("socket", c_char_p), ("name", c_char_p), ("event_delivery", c_uint32),
                ("no_reconnect", c_uint32), ("callback", c_void_p), ("callback_context", c_void_p),
                ("connect_timeout_ns", c_uint64), ("answer_timeout_ns", c_uint64)]


class Event(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kind", c_uint32), ("table", c_uint32), ("page", c_uint32), ("level", c_uint32),
                ("reserved", c_uint32), ("wanted_bytes", c_uint64)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("id", ctypes.c_char * 32), ("kind", ctypes.c_char * 16), ("page_bytes", c_uint64),
                ("capacity_bytes", c_uint64), ("tensor_alignment", c_uint64)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("rank", c_uint32), ("name", c_char_p), ("dtype", c_char_p),
                ("shape", POINTER(c_uint64)), ("offset", c_uint64), ("bytes", c_uint64)]


class CheckpointInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("id", ctypes.c_char * 16), ("format", c_char_p), ("bytes", c_uint64),
                ("tensor_bytes", c_uint64), ("tensors", c_uint32), ("metadata", c_uint32), ("handle", c_uint64)]


class TableOptions(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("mode", c_uint32), ("device", c_char_p), ("copy_on_write", c_uint32),
                ("reserved", c_uint32)]


class ManifestEntry(ctypes.Structure):
    _fields_ = [("table_offset", c_uint64), ("file_offset", c_uint64), ("file_bytes", c_uint64), ("checkpoint", c_uint32),
                ("reserved", c_uint32), ("stored_dtype", c_char_p), ("wanted_dtype", c_char_p), ("scale_offset", c_uint64)]


class TableInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("id", c_uint32), ("kind", c_uint32), ("pages", c_uint32), ("address", c_void_p),
                ("bytes", c_uint64), ("page_bytes", c_uint64)]


class Residency(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("pages", c_uint32), ("resident_bytes", c_uint64), ("mapped_bytes", c_uint64),
                ("pinned_bytes", c_uint64), ("private_bytes", c_uint64), ("alone_bytes", c_uint64)]


class Demand(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("reserved", c_uint32), ("device", c_char_p), ("weights_bytes", c_uint64),
                ("work_bytes", c_uint64), ("minimum_work_bytes", c_uint64), ("timeout_ns", c_uint64)]


class HoldingEntry(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kind", c_uint32), ("place", c_uint32), ("reserved", c_uint32), ("device", c_char_p),
                ("bytes", c_uint64)]


_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "pst_status_name": (c_char_p, [c_int32]),
    "pst_version": (c_char_p, []),
    "pst_last_error": (c_char_p, [c_void_p]),
    "pst_last_hint": (c_char_p, [c_void_p]),
    "pst_connect": (c_int32, [POINTER(ConnectOptions), POINTER(c_void_p)]),
    "pst_disconnect": (None, [c_void_p]),
    "pst_event_fd": (c_int, [c_void_p]),
    "pst_next_event": (c_int32, [c_void_p, POINTER(Event)]),
    "pst_session_id": (c_uint32, [c_void_p]),
    "pst_device_count": (c_int32, [c_void_p, POINTER(c_uint32)]),
    "pst_device_at": (c_int32, [c_void_p, c_uint32, POINTER(DeviceInfo)]),
    "pst_use_device": (c_int32, [c_void_p, c_char_p]),
    "pst_open_fd": (c_int32, [c_void_p, c_int, c_char_p, POINTER(c_void_p)]),
    "pst_close": (None, [c_void_p]),
    "pst_checkpoint_describe": (c_int32, [c_void_p, POINTER(CheckpointInfo)]),
    "pst_tensor_at": (c_int32, [c_void_p, c_uint32, POINTER(TensorInfo)]),
    "pst_metadata_at": (c_int32, [c_void_p, c_uint32, POINTER(c_char_p), POINTER(c_char_p)]),
    "pst_table_open": (c_int32, [c_void_p, POINTER(TableOptions), POINTER(c_void_p)]),
    "pst_table_assemble": (c_int32, [c_void_p, POINTER(c_void_p), c_uint32, POINTER(ManifestEntry), c_uint64,
                                     POINTER(TableOptions), POINTER(c_void_p)]),
    "pst_table_anonymous": (c_int32, [c_void_p, c_uint64, POINTER(TableOptions), POINTER(c_void_p)]),
    "pst_table_close": (None, [c_void_p]),
    "pst_table_describe": (c_int32, [c_void_p, POINTER(TableInfo)]),
    "pst_table_tensor": (c_int32, [c_void_p, c_uint32, POINTER(c_uint64), POINTER(c_uint64)]),
    "pst_fault": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint64]),
    "pst_unpin": (c_int32, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "pst_copy_out": (c_int32, [c_void_p, c_uint64, c_uint64, c_void_p, c_void_p]),
    "pst_prefetch": (c_int32, [c_void_p, c_uint64, c_uint64, c_int, c_uint64]),
    "pst_prioritize": (c_int32, [c_void_p]),
    "pst_set_cutoff": (c_int32, [c_void_p, c_uint64]),
    "pst_serials": (c_int32, [c_void_p, c_uint64, c_uint64, POINTER(c_uint64), c_size_t, POINTER(c_size_t)]),
    "pst_table_wanted": (c_int32, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(c_size_t)]),
    "pst_make_private": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint64]),
    "pst_allow_writes": (c_int32, [c_void_p, c_uint64, c_uint64]),
    "pst_end_writes": (c_int32, [c_void_p, c_uint64, c_uint64]),
    "pst_table_residency": (c_int32, [c_void_p, POINTER(Residency)]),
    "pst_run_revokes": (c_int32, [c_void_p]),
    "pst_idle": (c_int32, [c_void_p, c_int]),
    "pst_free": (c_int32, [c_void_p, c_char_p, c_uint64, c_uint64, POINTER(c_uint64)]),
    "pst_table_free": (c_int32, [c_void_p, c_uint64, c_uint64, POINTER(c_uint64)]),
    "pst_admit": (c_int32, [c_void_p, POINTER(Demand), POINTER(c_void_p)]),
    "pst_grant_work_bytes": (c_uint64, [c_void_p]),
    "pst_grant_release": (None, [c_void_p]),
    "pst_host_buffer_reserve": (c_int32, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "pst_host_buffer_grow": (c_int32, [c_void_p, c_uint64]),
    "pst_host_buffer_address": (c_void_p, [c_void_p]),
    "pst_host_buffer_truncate": (c_int32, [c_void_p, c_uint64]),
    "pst_host_buffer_read": (c_int32, [c_void_p, c_uint64, c_int, c_uint64, c_uint64, c_uint64]),
    "pst_host_buffer_close": (None, [c_void_p]),
    "pst_report_holdings": (c_int32, [c_void_p, POINTER(HoldingEntry), c_uint32, c_uint64]),
    "pst_query": (c_int32, [c_void_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "pst_release_text": (None, [c_void_p]),
}


def _candidates() -> list[str]:
    """Where the library may be: named, beside this package's build tree, installed."""
    named = os.environ.get("PENSTOCK_LIBRARY")
    if named:
        return [named]
    build = Path(__file__).resolve().parent.parent.parent / "lib/libpenstock.so.0"
    return [str(build), "libpenstock.so.0"]


def _load() -> ctypes.CDLL:
    problems = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as problem:
            problems.append(str(problem))
            continue
        for function, (result, arguments) in _PROTOTYPES.items():
            prototype = getattr(library, function)
            prototype.restype = result
            prototype.argtypes = arguments
        return library
    raise error("not_found", "libpenstock.so.0 can't be loaded: " + "; ".join(problems),
                "install the penstock package, or set PENSTOCK_LIBRARY")


library = _load()


def check(status: int, client: c_void_p | None) -> None:
    """Raises the exception that belongs to a status."""
    if status == DONE:
        return
    kind = library.pst_status_name(status).decode()
    message = library.pst_last_error(client).decode(errors="replace")
    hint = library.pst_last_hint(client).decode(errors="replace")
    raise error(kind, message or kind, hint)


_Struct = TypeVar("_Struct", bound=ctypes.Structure)


def sized(kind: type[_Struct]) -> _Struct:
    """An empty struct that knows its size."""
    value = kind()
    value.size = ctypes.sizeof(kind)
    return value


def nanoseconds(seconds: float | None) -> int:
    """A timeout: None = no deadline of one's own."""
    if seconds is None:
        return FOREVER
    if not seconds >= 0:
        raise error("invalid_argument", f"a timeout of {seconds} seconds")
    return min(int(seconds * 1e9), FOREVER - 1)
