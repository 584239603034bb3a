# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint, and tensors that are pinned in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock import _dlpack, _views
from penstock._dtypes import DTYPES
from penstock._memory import Pin
from penstock.errors import UnpinnedError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import torch as pt


@dataclass(frozen=True)
class Tensor:
    """What the checkpoint says of a tensor: `dtype` as in the file, for example "BF16"; `offset` in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int


class PinnedTensor:
    """A tensor whose memory stays in place until unpin(), the end of its `with`, and the end of every view of it."""

    def __init__(self, tensor: Tensor, pin: Pin, offset: int) -> None:
        self._tensor = tensor
        self._pin: Pin | None = pin
        self._offset = offset

    @property
    def name(self) -> str:
        return self._tensor.name

    @property
    def dtype(self) -> str:
        return self._tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._tensor.shape

    @property
    def nbytes(self) -> int:
        return self._tensor.nbytes

    @property
    def memory(self) -> memoryview:
        """The bytes, read-only."""
        return memoryview(self._export()).cast("B").toreadonly()

    def numpy(self) -> np.ndarray[Any, Any]:
        """A read-only array over the same memory. A dtype that neither numpy nor ml_dtypes has is shown as bytes, with
        the dtype's name in the array's dtype.metadata."""
        return _views.to_numpy(self.memory, self.dtype, self.shape)

    def torch(self) -> pt.Tensor:
        """A tensor over the same memory. torch knows no read-only tensors: what is written to it stays in this process,
        and is gone with the last such view."""
        return _views.to_torch(self._export(writable=True), self.dtype, self.shape)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        known = DTYPES.get(self.dtype)
        if known is None or not known.numpy:
            raise AttributeError(f"numpy has no dtype for {self.dtype}")  # It then asks for __array__.
        # The view as `data`: numpy keeps it, and with it the pin.
        return {"version": 3, "shape": self.shape, "typestr": _typestr(known.numpy), "data": self.memory}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if stream is not None:
            raise UnsupportedError("host memory has no streams")
        if dl_device not in (None, _dlpack.CPU):
            raise BufferError("the tensor lies in host memory")
        # Many consumers don't know read-only tensors; what they write stays in this process.
        memory = self._export(writable=True)
        return _dlpack.capsule(memory, self.dtype, self.shape, max_version, copied=bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _dlpack.CPU

    def unpin(self) -> None:
        """No new views from now on. The memory stays pinned until those that exist are gone."""
        exports = self.release()
        if exports > 0:
            warnings.warn(f"{self.name}: {exports} views outlive their pin; the memory stays pinned until they are gone",
                          ResourceWarning, stacklevel=3)

    def release(self) -> int:
        """The same without a word: for views that are meant to live on. Returns how many there are."""
        pin, self._pin = self._pin, None
        return pin.exports if pin is not None else 0

    def __enter__(self) -> PinnedTensor:
        if self._pin is None:
            raise UnpinnedError(f"{self.name} is not pinned any more")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.unpin()

    def __repr__(self) -> str:
        state = "pinned" if self._pin is not None else "unpinned"
        return f"<{state} {self.name} {self.dtype} {list(self.shape)}>"

    def _export(self, writable: bool = False) -> Any:
        pin = self._pin
        if pin is None:
            raise UnpinnedError(f"{self.name} is not pinned any more", "make views inside of the `with`")
        pin.table.connection.check_process()
        return pin.export(self._offset, self.nbytes, writable)


class PinnedTensors(Mapping[str, PinnedTensor]):
    """All tensors of a checkpoint, pinned together."""

    def __init__(self, tensors: Mapping[str, PinnedTensor]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> PinnedTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def unpin(self) -> None:
        """Gives all of them up."""
        # They share one pin.
        exports = max((tensor.release() for tensor in self._tensors.values()), default=0)
        if exports > 0:
            warnings.warn(f"{exports} views outlive their pin; the memory stays pinned until they are gone",
                          ResourceWarning, stacklevel=3)

    def __enter__(self) -> PinnedTensors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.unpin()


def _typestr(numpy_name: str) -> str:
    return {"?": "|b1", "u1": "|u1", "i1": "|i1"}.get(numpy_name, numpy_name)


__all__ = ["PinnedTensor", "PinnedTensors", "Tensor"]
