# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU for array libraries, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._dtypes import DTYPES, raw_shape, typestr
from penstock._memory import Pin
from penstock.errors import UnsupportedError

if TYPE_CHECKING:
    import torch


def array_interface(pin: Pin, offset: int, nbytes: int, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3. It has no name for bfloat16 and the 8-bit floats: those are shown as bytes,
    with one more axis where an element has several. Nothing has to be waited for: what is pinned is there. It says that
    the memory can be written to, as torch takes nothing else; it can't: a write is a fault of the GPU, and ends the
    program's context."""
    known = DTYPES.get(dtype)
    text = typestr(known.numpy) if known is not None and known.numpy else "|u1"
    if text == "|u1":
        shape = shape if known is not None and known.numpy else raw_shape(dtype, shape, nbytes)
    address = pin.table.address + offset if nbytes > 0 else 0
    return {"version": 3, "shape": shape, "typestr": text, "data": (address, False), "strides": None}


class DeviceArray:
    """A pinned tensor on a GPU, for cupy.asarray, torch.as_tensor(..., device="cuda") and the like. Whoever keeps it, as
    they do, keeps the pages pinned."""

    def __init__(self, pin: Pin, offset: int, nbytes: int, dtype: str, shape: tuple[int, ...]) -> None:
        self._pin = pin
        self.__cuda_array_interface__ = array_interface(pin, offset, nbytes, dtype, shape)
        pin.count(self)


def to_torch(pin: Pin, offset: int, nbytes: int, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """On the current GPU of torch, which must be the tensor's own."""
    try:
        import torch
    except ImportError as error:
        raise UnsupportedError("torch is not installed") from error
    name = DTYPES[dtype].torch if dtype in DTYPES else ""
    known = getattr(torch, name, None) if name else None
    if known is None:
        known, shape = torch.uint8, raw_shape(dtype, shape, nbytes)
    if nbytes == 0:
        return torch.empty(shape, dtype=known, device="cuda")
    # As bytes, since that interface lacks some dtypes.
    found = torch.as_tensor(DeviceArray(pin, offset, nbytes, "U8", (nbytes,)), device="cuda")
    if found.data_ptr() != pin.table.address + offset:
        raise UnsupportedError("torch has copied the tensor to another GPU",
                               "make the GPU of the service the current one: with torch.cuda.device(...)")
    return found.view(known).reshape(shape)
