# SPDX-License-Identifier: Apache-2.0
"""Tensors: what a checkpoint says of them, and pinned ones, whose bytes can be looked at without a copy."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from penstock import _dtypes
from penstock.errors import error


@dataclass(frozen=True)
class Tensor:
    """A named extent of a checkpoint; `offset` is in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int


class _Pages:
    """One pin of a range; ends once, when its last user does."""

    def __init__(self, table: Any, offset: int, size: int) -> None:
        self.table = table
        self.offset = offset
        self.size = size
        self.writes = 0
        self.lock = threading.Lock()

    def allow_writes(self) -> None:
        with self.lock:
            self.table.allow_writes(self.offset, self.size)
            self.writes += 1

    def end(self) -> None:
        for _ in range(self.writes):
            self.table.end_writes(self.offset, self.size)
        self.table.unpin(self.offset, self.size)


def _exporter(address: int, size: int) -> Any:
    """An object over foreign memory that exports it and can be watched until its last view is gone."""
    return (ctypes.c_ubyte * size).from_address(address)


class PinnedTensor:
    """A tensor whose pages are in memory and stay there while this or any view of it lives.

    Views are `.memory` (a read-only memoryview), `.numpy()` (read-only) and `.torch()` (torch knows no read-only
    tensors: what is written to it stays in this process). None of them copies.
    """

    def __init__(self, tensor: Tensor, table: Any, offset: int) -> None:
        self._tensor = tensor
        self._process = os.getpid()
        self._pages = _Pages(table, offset, tensor.nbytes)
        table.fault(offset, tensor.nbytes)
        self._exporter = _exporter(table.address + offset, tensor.nbytes)
        self._finalizer = weakref.finalize(self._exporter, self._pages.end)
        self._finalizer.atexit = False
        table.enlist(self._finalizer)

    name = property(lambda self: self._tensor.name)
    dtype = property(lambda self: self._tensor.dtype)
    shape = property(lambda self: self._tensor.shape)
    nbytes = property(lambda self: self._tensor.nbytes)

    def _bytes(self) -> Any:
        if os.getpid() != self._process:
            raise error("forked", f"{self.name}: this process was forked after the tensor was pinned",
                        "a child has no tensors: connect in the child")
        if self._exporter is None:
            raise error("unpinned", f"{self.name} is not pinned any more", "use it inside its `with`")
        return self._exporter

    @property
    def memory(self) -> memoryview:
        """The bytes, read-only."""
        return memoryview(self._bytes()).cast("B").toreadonly()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        kind = _dtypes.type_string(self.dtype)
        if kind is None:
            raise AttributeError(f"{self.dtype} has no array interface; use .numpy() or .memory")
        return {"version": 3, "shape": self.shape, "typestr": kind if kind[0] in "<>" else "|" + kind.replace("?", "b1"),
                "data": self.memory}

    def numpy(self) -> Any:
        """A read-only array; raw bytes where neither numpy nor ml_dtypes knows the dtype (`.dtype` names it)."""
        import numpy

        kind = _dtypes.numpy_dtype(self.dtype)
        if kind is None:
            return numpy.frombuffer(self.memory, dtype=numpy.uint8)
        if self.nbytes == 0:
            return numpy.empty(self.shape, dtype=kind)
        return numpy.frombuffer(self.memory, dtype=kind).reshape(self.shape)

    def torch(self) -> Any:
        """A torch tensor over the pages; what is written to it stays in this process."""
        import torch

        kind = _dtypes.torch_dtype(self.dtype)
        if self.nbytes == 0:
            return torch.empty(self.shape, dtype=kind)
        exporter = self._bytes()
        self._pages.allow_writes()
        return torch.frombuffer(exporter, dtype=kind, count=prod(self.shape)).reshape(self.shape)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.torch().__dlpack__(**arguments) if _has_torch() else self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        self._bytes()
        return (1, 0)  # Host memory.

    def unpin(self) -> None:
        """Gives the pages up; they stay pinned until the last view of them is gone, and that is said."""
        exporter, self._exporter = self._exporter, None
        if exporter is None:
            return
        watched = weakref.ref(exporter)
        del exporter
        if watched() is not None:
            warnings.warn(f"{self.name}: a view outlives its pin; its pages stay pinned until the view is gone",
                          ResourceWarning, stacklevel=3)

    def __enter__(self) -> PinnedTensor:
        return self

    def __exit__(self, *_: object) -> None:
        self.unpin()

    def __repr__(self) -> str:
        state = "pinned" if self._exporter is not None else "unpinned"
        return f"<{state} {self.name} {self.dtype} {list(self.shape)}>"


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


class PinnedTensors(dict[str, PinnedTensor]):
    """Several pinned tensors by name; all are given up together."""

    def __init__(self, tensors: list[Tensor], pin: Callable[[Tensor], PinnedTensor]) -> None:
        super().__init__()
        try:
            for tensor in tensors:
                self[tensor.name] = pin(tensor)
        except BaseException:
            self.unpin()
            raise

    def unpin(self) -> None:
        """Gives all of them up."""
        for tensor in self.values():
            tensor.unpin()

    def __enter__(self) -> PinnedTensors:
        return self

    def __exit__(self, *_: object) -> None:
        self.unpin()
