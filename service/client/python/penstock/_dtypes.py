# SPDX-License-Identifier: Apache-2.0
"""Names of element types, as numpy and torch call them."""

from __future__ import annotations

from typing import Any

from penstock.errors import error

# Checkpoint's name -> numpy's type string; those with a module come from ml_dtypes.
_NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4",
          "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8", "C64": "<c8"}
_ML_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
              "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}
_TORCH = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16",
          "BF16": "bfloat16", "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64",
          "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
          "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}


def type_string(dtype: str) -> str | None:
    """The array interface's type, or None where it has none."""
    return _NUMPY.get(dtype)


def numpy_dtype(dtype: str) -> Any:
    """numpy's dtype, or None where neither numpy nor an installed ml_dtypes has it: then the bytes are shown raw."""
    import numpy

    if dtype in _NUMPY:
        return numpy.dtype(_NUMPY[dtype])
    if dtype in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            return None
        found = getattr(ml_dtypes, _ML_DTYPES[dtype], None)
        return None if found is None else numpy.dtype(found)
    return None


def torch_dtype(dtype: str) -> Any:
    """torch's dtype."""
    import torch

    found = getattr(torch, _TORCH.get(dtype, ""), None)
    if found is None:
        raise error("unsupported", f"torch has no dtype for {dtype}", "use .memory and view the bytes yourself")
    return found
