# SPDX-License-Identifier: Apache-2.0
"""Pages of a table whose owner wants to be told before one goes.

Such a page keeps a pin of ours beside those of its users, so that the service can't take it (C8). It is let go where the
owner's thread is in a call of ours anyway, once nobody uses it and the owner agreed.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from penstock.memory import PageTable, PrivateTable

log = logging.getLogger("penstock")


class HeldPages:
    """`callback(offset, nbytes)` is called before a page goes; it stays when that raises."""

    def __init__(self, table: PrivateTable, callback: Callable[[int, int], Any]) -> None:
        self._table = table
        self._callback = callback
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self._users: dict[int, int] = {}
        self._allowance = 1  # Pages; see answer_wanted().

    def pinned(self, pages: range) -> None:
        """A fault pinned them."""
        with self._lock:
            new = [page for page in pages if page not in self._held]
            self._held.update(new)
            for page in pages:
                self._users[page] = self._users.get(page, 0) + 1
        for page in new:
            self._table.fault(page * self._table.page_bytes, 1)  # Pinned already: never waits.

    def unpinned(self, pages: range) -> None:
        with self._lock:
            for page in pages:
                self._users[page] -= 1

    def ending(self) -> Callable[[int], None]:
        """Gives the pins up, on a stream, once nobody uses the table any more, so that nobody has to agree. It doesn't keep
        this, nor the callback."""
        return functools.partial(_unpin, self._table, self._held)

    def let_go(self, wanted: Callable[[int], bool], count: int | None = None) -> int:
        """Lets go of at most `count` pages without users, from the end of the table; how many went."""
        with self._lock:
            idle = sorted((page for page in self._held if self._users.get(page, 0) == 0 and wanted(page)), reverse=True)
            idle = idle[:count]
            self._held.difference_update(idle)
        gone = 0
        for page in idle:
            if self._agreed(page):
                self._table.unpin(page * self._table.page_bytes, 1)
                gone += 1
            else:
                with self._lock:
                    self._held.add(page)
        return gone

    def answer_wanted(self, growing: bool) -> int:
        """Lets go of what the service asked for meanwhile; how many pages went. It asks for one after the other while they are
        pinned, and doesn't say how many it is short of: so one goes at a time, and with `growing` twice as many at the next."""
        asked = set(self._table.wanted())
        if not asked:
            self._allowance = 1
            return 0
        count = self._allowance if growing else 1
        if growing:
            self._allowance *= 2
        return self.let_go(asked.__contains__, count)

    def _agreed(self, page: int) -> bool:
        size = self._table.page_bytes
        try:
            self._callback(page * size, size)
        except Exception:  # noqa: BLE001 - The owner's code; the page stays.
            log.exception("penstock: the page-out callback failed, the page stays")
            return False
        return True


def _unpin(table: PageTable, pages: set[int], stream: int) -> None:
    while pages:
        table.unpin(pages.pop() * table.page_bytes, 1, stream)
