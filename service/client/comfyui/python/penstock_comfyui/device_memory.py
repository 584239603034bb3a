# SPDX-License-Identifier: Apache-2.0
"""Cast buffers on a GPU: pages of the service that stay pinned, so that they count there and nobody takes them. Where it
has none, the driver's own memory: ComfyUI has nothing else to cast into."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from penstock.memory import PageTable, PrivateTable
from penstock_comfyui.gpu import Driver
from penstock_comfyui.link import say_once


class DeviceMemory:
    """`pin` is how a VBAR gets pages of a table."""

    def __init__(self, table: PrivateTable | None, nbytes_max: int, index: int, driver: Driver,
                 pin: Callable[[PageTable, int, int], bool], stream: Callable[[], int]) -> None:
        self.index = index
        self.address = table.address if table is not None else 0
        self.nbytes_max = nbytes_max
        self.size = 0
        self._table = table
        self._driver = driver
        self._pin = pin
        self._lock = threading.Lock()
        self._pinned = 0
        self._ranges: list[tuple[int, int]] = []
        self._own: dict[int, tuple[int, int]] = {}  # Address and size, by the place in the buffer.
        weakref.finalize(self, _give_up, table, self._ranges, stream, self._own, driver).atexit = False

    def place(self, offset: int, nbytes: int) -> int:
        """The address of a range; it stays while the buffer lives."""
        if offset + nbytes > self.nbytes_max:
            raise RuntimeError(f"penstock: a buffer of at most {self.nbytes_max} bytes can't have {offset + nbytes}")
        with self._lock:
            self.size = max(self.size, offset + nbytes)
            if self._table is not None and self._grow(self._table, offset + nbytes):
                return self._table.address + offset
            address, size = self._own.get(offset, (0, 0))
            if size < nbytes:
                say_once("a cast buffer lies in memory that the service doesn't know of")
                address = self._driver.allocate(nbytes)
                if size:
                    self._own[-len(self._own) - 1] = self._own[offset]  # Somebody may still look at it.
                self._own[offset] = (address, nbytes)
            return address

    def _grow(self, table: PrivateTable, nbytes: int) -> bool:
        more = nbytes - self._pinned
        if more <= 0:
            return True
        if nbytes > table.nbytes or not self._pin(table, self._pinned, more):
            return False
        self._ranges.append((self._pinned, more))
        self._pinned = nbytes
        return True


def _give_up(table: PrivateTable | None, ranges: list[tuple[int, int]], stream: Callable[[], int],
             own: dict[int, tuple[int, int]], driver: Driver) -> None:
    for address, _ in own.values():
        driver.free(address)
    if table is not None:
        for offset, nbytes in ranges:
            table.unpin(offset, nbytes, stream())
