# SPDX-License-Identifier: Apache-2.0
"""Element types by their safetensors names, and what numpy, torch and DLPack call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy


class Dtype(NamedTuple):
    bits: int
    numpy: str = ""  # Empty: numpy has no such type of its own.
    ml_dtypes: str = ""
    torch: str = ""
    dlpack: int = -1  # Type code; -1: none.


# Codes of DLPack: int 0, uint 1, float 2, bfloat 4, complex 5, bool 6, the 8-bit floats from 7 on (version 1.1).
DTYPES: dict[str, Dtype] = {
    "BOOL": Dtype(8, "?", torch="bool", dlpack=6),
    "U8": Dtype(8, "u1", torch="uint8", dlpack=1),
    "I8": Dtype(8, "i1", torch="int8", dlpack=0),
    "U16": Dtype(16, "<u2", torch="uint16", dlpack=1),
    "I16": Dtype(16, "<i2", torch="int16", dlpack=0),
    "U32": Dtype(32, "<u4", torch="uint32", dlpack=1),
    "I32": Dtype(32, "<i4", torch="int32", dlpack=0),
    "U64": Dtype(64, "<u8", torch="uint64", dlpack=1),
    "I64": Dtype(64, "<i8", torch="int64", dlpack=0),
    "F16": Dtype(16, "<f2", torch="float16", dlpack=2),
    "F32": Dtype(32, "<f4", torch="float32", dlpack=2),
    "F64": Dtype(64, "<f8", torch="float64", dlpack=2),
    "C64": Dtype(64, "<c8", torch="complex64", dlpack=5),
    "BF16": Dtype(16, ml_dtypes="bfloat16", torch="bfloat16", dlpack=4),
    "F8_E4M3": Dtype(8, ml_dtypes="float8_e4m3fn", torch="float8_e4m3fn", dlpack=10),
    "F8_E5M2": Dtype(8, ml_dtypes="float8_e5m2", torch="float8_e5m2", dlpack=12),
    "F8_E8M0": Dtype(8, ml_dtypes="float8_e8m0fnu", torch="float8_e8m0fnu", dlpack=14),
    "F8_E4M3FNUZ": Dtype(8, ml_dtypes="float8_e4m3fnuz", torch="float8_e4m3fnuz", dlpack=11),
    "F8_E5M2FNUZ": Dtype(8, ml_dtypes="float8_e5m2fnuz", torch="float8_e5m2fnuz", dlpack=13),
    # Packed: several elements a byte. Shown as bytes.
    "F4": Dtype(4),
    "F6_E2M3": Dtype(6),
    "F6_E3M2": Dtype(6),
}
FIRST_8_BIT_FLOAT = 7


def numpy_dtype(name: str) -> numpy.dtype[Any] | None:
    """None when neither numpy nor ml_dtypes has it."""
    import numpy

    known = DTYPES.get(name)
    if known is None:
        return None
    if known.numpy:
        return numpy.dtype(known.numpy)
    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar = getattr(ml_dtypes, known.ml_dtypes, None) if known.ml_dtypes else None
    return None if scalar is None else numpy.dtype(scalar)


def typestr(numpy_name: str) -> str:
    """As the array interfaces spell it."""
    return {"?": "|b1", "u1": "|u1", "i1": "|i1"}.get(numpy_name, numpy_name)


def raw_numpy_dtype(name: str) -> numpy.dtype[Any]:
    """Bytes that say what they are: the name is in the dtype's metadata."""
    import numpy

    return numpy.dtype("u1", metadata={"dtype": name})


def raw_shape(name: str, shape: tuple[int, ...], nbytes: int) -> tuple[int, ...]:
    """The shape of those bytes: one more axis for the bytes of an element, flat where elements share bytes."""
    bits = DTYPES[name].bits if name in DTYPES else 0
    return (*shape, bits // 8) if bits >= 8 and bits % 8 == 0 else (nbytes,)
