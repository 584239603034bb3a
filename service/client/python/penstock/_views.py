# SPDX-License-Identifier: Apache-2.0
"""Memory as arrays of numpy and tensors of torch, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._dtypes import DTYPES, numpy_dtype, raw_numpy_dtype, raw_shape
from penstock.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy
    import torch


def to_numpy(memory: memoryview, dtype: str, shape: tuple[int, ...]) -> numpy.ndarray[Any, Any]:
    """Read-only as `memory` is. The array keeps `memory`."""
    try:
        import numpy
    except ImportError as error:
        raise UnsupportedError("numpy is not installed") from error
    known = numpy_dtype(dtype)
    if known is None:
        known, shape = raw_numpy_dtype(dtype), raw_shape(dtype, shape, memory.nbytes)
    if memory.nbytes == 0:
        empty = numpy.empty(shape, known)
        empty.flags.writeable = False
        return empty
    return numpy.frombuffer(memory, dtype=known).reshape(shape)


def to_torch(memory: Any, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor keeps `memory`, a writable buffer. A dtype that this torch lacks is shown as bytes."""
    try:
        import torch
    except ImportError as error:
        raise UnsupportedError("torch is not installed") from error
    name = DTYPES[dtype].torch if dtype in DTYPES else ""
    known = getattr(torch, name, None) if name else None
    nbytes = memoryview(memory).nbytes
    if known is None:
        known, shape = torch.uint8, raw_shape(dtype, shape, nbytes)
    if nbytes == 0:
        return torch.empty(shape, dtype=known)
    # Bytes first: frombuffer wants aligned memory for some types, view() checks it and says so.
    return torch.frombuffer(memory, dtype=torch.uint8).view(known).reshape(shape)
