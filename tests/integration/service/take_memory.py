# SPDX-License-Identifier: Apache-2.0
"""Takes anonymous memory at a rate, says how long that took, keeps the memory until the end of its input.

usage: take_memory.py BYTES BYTES_PER_SECOND

The kernel makes the pages present, a chunk at a time: Python copies nothing, so that the rate is the machine's.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time

CHUNK = 4 << 20
MADV_POPULATE_WRITE = 23  # Linux 5.14.


def main() -> None:
    total, rate = int(sys.argv[1]), int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    memory = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = time.monotonic()
    for at in range(0, total, CHUNK):
        size = min(CHUNK, total - at)
        if libc.madvise(first + at, size, MADV_POPULATE_WRITE) != 0:
            sys.exit(f"can't take memory: {os.strerror(ctypes.get_errno())}")
        ahead = (at + size) / rate - (time.monotonic() - start)
        if ahead > 0:
            time.sleep(ahead)
    print(time.monotonic() - start, flush=True)
    sys.stdin.read()


main()
