# SPDX-License-Identifier: Apache-2.0
"""Takes anonymous memory at a rate, says so, keeps it until the end of its input.

usage: take_memory.py BYTES BYTES_PER_SECOND
"""

from __future__ import annotations

import mmap
import sys
import time

CHUNK = 1 << 20


def main() -> None:
    total, rate = int(sys.argv[1]), int(sys.argv[2])
    memory = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    content = b"x" * CHUNK
    start = time.monotonic()
    for at in range(0, total, CHUNK):
        memory[at:at + CHUNK] = content
        ahead = (at + CHUNK) / rate - (time.monotonic() - start)
        if ahead > 0:
            time.sleep(ahead)
    print(time.monotonic() - start, flush=True)
    sys.stdin.read()


main()
