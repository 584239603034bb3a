# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint, and tensors that are pinned in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock import _dlpack, _gpu, _views
from penstock._dtypes import DTYPES, typestr
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
        self._lent: Pin | None = None  # To somebody who keeps this object, and can't tell when he lets go.

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
        """The bytes, read-only; of host memory."""
        if self._pinned().table.on_gpu:
            raise UnsupportedError(f"{self.name} lies on a GPU, where the processor can't read it",
                                   "tobytes() makes a copy; array() is for libraries that use the GPU")
        return memoryview(self._export()).cast("B").toreadonly()

    def tobytes(self) -> bytes:
        """A copy in host memory, whatever the device. On a GPU it is made in the calling thread's context, behind what the
        default stream has queued."""
        return self._pinned().copy_out(self._offset, self.nbytes)

    def array(self) -> _gpu.DeviceArray:
        """A view of memory on a GPU, with `__cuda_array_interface__`: for cupy.asarray, torch.as_tensor and the like, which
        then keep the pages pinned."""
        return _gpu.DeviceArray(self._on_gpu(), self._offset, self.nbytes, self.dtype, self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A read-only array over the same memory. A dtype that neither numpy nor ml_dtypes has is shown as bytes, with
        the dtype's name in the array's dtype.metadata."""
        return _views.to_numpy(self.memory, self.dtype, self.shape)

    def torch(self) -> pt.Tensor:
        """A tensor over the same memory. torch knows no read-only tensors. In host memory what is written to it stays in
        this process, and is gone with the last such view; on a GPU a write is a fault that ends the program's context."""
        if self._pinned().table.on_gpu:
            return _gpu.to_torch(self._pinned(), self._offset, self.nbytes, self.dtype, self.shape)
        return _views.to_torch(self._export(writable=True), self.dtype, self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._pin is not None and not self._pin.table.on_gpu:
            raise AttributeError("the tensor lies in host memory")  # They then ask for another interface.
        self._lent = self._on_gpu()
        return _gpu.array_interface(self._lent, self._offset, self.nbytes, self.dtype, self.shape)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._pin is not None and self._pin.table.on_gpu:
            raise AttributeError("the tensor lies on a GPU")
        known = DTYPES.get(self.dtype)
        if known is None or not known.numpy:
            raise AttributeError(f"numpy has no dtype for {self.dtype}")  # It then asks for __array__.
        # The view as `data`: numpy keeps it, and with it the pin.
        return {"version": 3, "shape": self.shape, "typestr": typestr(known.numpy), "data": self.memory}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        self._refuse_gpu()
        if stream is not None:
            raise UnsupportedError("host memory has no streams")
        if dl_device not in (None, _dlpack.CPU):
            raise BufferError("the tensor lies in host memory")
        # Many consumers don't know read-only tensors; what they write stays in this process.
        memory = self._export(writable=True)
        return _dlpack.capsule(memory, self.dtype, self.shape, max_version, copied=bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        self._refuse_gpu()
        return _dlpack.CPU

    def unpin(self, stream: int | None = None) -> None:
        """No new views from now on. The memory stays pinned until those that exist are gone. On a GPU `stream` is the
        handle of the queue whose work so far may still read it; None: the default one. Let it end on a thread that has
        the program's context: another one can't ask about its work."""
        if self._pin is not None:
            self._pin.stream.value = stream
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

    def keeper(self) -> object:
        """Lives as long as this pin or a view of it: for weak references."""
        return self._pinned()

    def _pinned(self) -> Pin:
        pin = self._pin
        if pin is None:
            raise UnpinnedError(f"{self.name} is not pinned any more", "make views inside of the `with`")
        pin.table.connection.check_process()
        return pin

    def _on_gpu(self) -> Pin:
        pin = self._pinned()
        if not pin.table.on_gpu:
            raise UnsupportedError(f"{self.name} lies in host memory", "use memory, numpy() or torch()")
        return pin

    def _refuse_gpu(self) -> None:
        if self._pinned().table.on_gpu:
            raise BufferError("DLPack of memory on a GPU is not offered: use array() or torch()")

    def _export(self, writable: bool = False) -> Any:
        return self._pinned().export(self._offset, self.nbytes, writable)


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


__all__ = ["PinnedTensor", "PinnedTensors", "Tensor"]
