# SPDX-License-Identifier: Apache-2.0
"""Pages of a VBAR that the service fills, and that processes with the same weights share.

Weights that are used as the service makes them out of their file are *clean*: their signature is one that never changes,
because a page that comes back holds the same bytes, and their module is told signature and place before ComfyUI compares,
so that it writes nothing. Weights that ComfyUI changes (a LoRA) are its *own*: their pages are made private before a fault
answers, so that there is always a page to write to, or none. A private page begins as a copy: clean neighbours stay so.

Who finds a clean signature to be another than the one it knows will write as well, and has had its answer. Its pages are made
private there; where there is no room for that it is *refused*, and is given other memory to write to until its unpin.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import penstock
from penstock.memory import AssembledTable
from penstock_comfyui import service_cache
from penstock_comfyui.layout import Weights
from penstock_comfyui.link import link
from penstock_comfyui.pins import Pins
from penstock_comfyui.signatures import signature, unknown


# Beyond the service's serials, and those of pages that nobody vouches for.
_contents = itertools.count((1 << 63) | (1 << 62))


class SharedPages:
    """`weights`: with their offsets in the table. `pin` and `make_private` are how the VBAR gets pages of a table, or fails
    to."""

    def __init__(self, table: AssembledTable, weights: Iterable[tuple[int, Weights]], pin: Callable[[Any, int, int], bool],
                 make_private: Callable[[Any, int, int], bool]) -> None:
        self.table = table
        self.base = table.address
        self.page_bytes = table.page_bytes
        self.pins = Pins()
        self.private_made = 0
        self._pin = pin
        self._make_private = make_private
        self._content = next(_contents)
        self._end = table.pages * table.page_bytes
        self._weights = {offset: one for offset, one in weights if offset + one.nbytes <= self._end
                         and offset < table.nbytes}
        self._offsets = {one.origin: offset for offset, one in self._weights.items()}
        # Serials of the private pages that a module was let write to, by its offset.
        self._written: dict[int, tuple[int, ...]] = {}
        self._refused: set[int] = set()  # Offsets.

    def address_of(self, origin: int) -> int | None:
        """Of the weights that were allocated there in the VBAR; None: they stay there."""
        offset = self._offsets.get(origin)
        return None if offset is None else self.base + offset

    def origins(self, pages: Container[int]) -> list[tuple[int, int]]:
        """Where in the VBAR those were allocated, and their bytes, that lie in these pages alone."""
        return [(one.origin, one.nbytes) for offset, one in self._weights.items()
                if all(page in pages for page in self.pages_of(offset, one.nbytes))]

    def pages_of(self, offset: int, nbytes: int) -> range:
        return range(offset // self.page_bytes, (offset + max(nbytes, 1) - 1) // self.page_bytes + 1)

    def covers(self, address: int) -> bool:
        return self.base <= address < self.base + self._end

    def fault(self, address: int, nbytes: int) -> Any:
        """Pinned, and the signature; None: offloaded."""
        offset = address - self.base
        inside = self._inside(offset, nbytes)
        if not self._pin(self.table, offset, inside):
            return None
        weights = self._weights.get(offset)
        serials: Sequence[int] | None
        if weights is None or weights.nbytes != nbytes:
            serials = self._look(offset, inside)
        elif weights.clean() and not self._is_written(offset, inside):
            serials = [self._content] * len(self.pages_of(offset, inside))
            weights.show(address, self._signed(serials, offset, nbytes, claimed=True))
            self.pins.add(offset, nbytes)
            return self._signed(serials, offset, nbytes, claimed=True)
        else:
            serials = self._own(offset, inside)
        if serials is None:
            self.table.unpin(offset, inside)
            return None
        self.pins.add(offset, nbytes)
        return self._signed(serials, offset, nbytes)

    def is_refused(self, address: int) -> bool:
        return address - self.base in self._refused

    def unpin(self, address: int, nbytes: int, stream: int = 0) -> bool:
        """False: it wasn't pinned, and nothing was done."""
        offset = address - self.base
        if not self.pins.take(offset, nbytes):
            return False
        self._refused.discard(offset)
        self.table.unpin(offset, self._inside(offset, nbytes), stream)
        return True

    @property
    def mapped_bytes(self) -> int:
        """Of pages that go when this process gives them up: private ones, and those that nobody else has mapped."""
        return int(self.table.residency().alone_bytes)

    def drop_unused(self) -> int:
        """What the service has of these files, unless another process has them; the bytes."""
        service = link.service()
        if service is None:
            return 0
        try:
            found = link.answer(service.status)["checkpoints"]
            if any(one["clients"] > 1 for one in found if one["id"] in self.table.checkpoints):
                return 0
            return sum(service_cache.evict(service, {"checkpoint": handle}) or 0 for handle in self.table.handles)
        except (penstock.PenstockError, KeyError):
            return 0

    def _inside(self, offset: int, nbytes: int) -> int:
        """Up to the table's last byte: the rest of its last page can be used all the same."""
        return min(nbytes, self.table.nbytes - offset)

    def _signed(self, serials: Sequence[int], offset: int, nbytes: int, claimed: bool = False) -> Any:
        found = signature(serials, nbytes, self.page_bytes)
        if claimed:
            found.claim = functools.partial(self._claim, offset, nbytes)  # type: ignore[attr-defined]
        return found

    def _claim(self, offset: int, nbytes: int, found: Any) -> None:
        """The caller of fault() takes clean weights for other ones than it knows, and is about to write them: `found`, its
        signature, becomes that of private pages, or one that nobody has. REQUIRES: they are still pinned."""
        serials: Sequence[int] | None = self._own(offset, self._inside(offset, nbytes))
        if serials is None:
            self._refused.add(offset)
            serials = [unknown() for _ in self.pages_of(offset, nbytes)]
        found[:len(serials)] = serials
        del found.claim

    def _look(self, offset: int, inside: int) -> list[int]:
        """A range of several weights: a shared page's bytes are always the same, a private one's are what its serial says."""
        return [serial if serial & 1 else self._content for serial in self._serials(offset, inside)]

    def _own(self, offset: int, inside: int) -> tuple[int, ...] | None:
        shared = sum(not serial & 1 for serial in self._serials(offset, inside))
        if shared and not self._make_private(self.table, offset, inside):
            return None
        serials = self._serials(offset, inside)
        if any(not serial & 1 for serial in serials):
            return None  # Kept from a connection that is lost: nobody knows any more which bytes are whose.
        self.private_made += shared
        self._written[offset] = serials
        return serials

    def _is_written(self, offset: int, inside: int) -> bool:
        """A page of theirs still has what their module wrote."""
        written = self._written.get(offset)
        if written is None:
            return False
        if any(one == other for one, other in zip(written, self._serials(offset, inside))):
            return True
        del self._written[offset]
        return False

    def _serials(self, offset: int, inside: int) -> tuple[int, ...]:
        return tuple(self.table.serials(offset, inside))
