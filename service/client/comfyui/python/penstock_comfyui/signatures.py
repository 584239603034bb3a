# SPDX-License-Identifier: Apache-2.0
"""What a fault answers with: a number for each page of its range. Of the same length for all ranges of a size, wherever in its
first page one starts: who compares two of other lengths compares other things."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable

# Serials for pages whose content nobody vouches for; the service's own stay below.
_unknown = itertools.count(1 << 63)


def signature(serials: Iterable[int], nbytes: int, page_bytes: int) -> ctypes.Array[ctypes.c_uint64]:
    """Zero behind the last page."""
    return (ctypes.c_uint64 * (nbytes // page_bytes + 2))(*serials)


def unknown() -> int:
    """A serial that no page had before."""
    return next(_unknown)
