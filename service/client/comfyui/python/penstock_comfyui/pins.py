# SPDX-License-Identifier: Apache-2.0
"""Which ranges of a table this process has pinned, and how often."""

from __future__ import annotations

import threading


class Pins:
    """A pin is given up by the very range that was pinned: several modules share a page, and a stray unpin must not take a
    neighbour's (C4)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, int], int] = {}

    def add(self, offset: int, nbytes: int) -> None:
        with self._lock:
            self._counts[offset, nbytes] = self._counts.get((offset, nbytes), 0) + 1

    def take(self, offset: int, nbytes: int) -> bool:
        """False: this range isn't pinned."""
        with self._lock:
            count = self._counts.get((offset, nbytes), 0)
            if count <= 1:
                self._counts.pop((offset, nbytes), None)
            else:
                self._counts[offset, nbytes] = count - 1
        return count > 0

    def take_all(self) -> list[tuple[int, int]]:
        """A range as often as it was pinned."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return [span for span, count in counts.items() for _ in range(count)]

    def ranges(self) -> list[tuple[int, int]]:
        with self._lock:
            return list(self._counts)
