# SPDX-License-Identifier: Apache-2.0
"""VBARs on tables of the service, a private one and one that is shared: what the surface's ModelVBAR is made of."""

from __future__ import annotations

import functools
import logging
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import penstock
from penstock.memory import AssembledTable, PageTable
from penstock_comfyui import devices, safe_points, shared_tables
from penstock_comfyui.address_space import AddressSpace
from penstock_comfyui.fork_lock import ForkLock
from penstock_comfyui.held_pages import HeldPages
from penstock_comfyui.layout import Weights, lay_out
from penstock_comfyui.link import say_once
from penstock_comfyui.pins import Pins
from penstock_comfyui.shared_pages import SharedPages
from penstock_comfyui.signatures import signature, unknown
from penstock_comfyui.tables import make_private, make_table, try_pin

FREE_SECONDS = 10.0
PAGE_BYTES_WITHOUT = 8 << 20  # Of a VBAR that will never have one.

_tables: weakref.WeakSet[VbarPages] = weakref.WeakSet()
_tables_lock = ForkLock()
# Since the start, of all VBARs.
_counts = dict.fromkeys(("faults", "offloaded", "unpins", "stray_unpins", "freed_bytes", "pages_made_private"), 0)


class VbarPages:
    """The pages of one VBAR. `base` is fixed; without a service everything is offloaded."""

    def __init__(self, nbytes: int, index: int, pageout: Callable[[int, int], Any] | None = None) -> None:
        self.index = index
        self.nbytes = max(int(nbytes), 1)
        self._pins = Pins()
        self._shared: SharedPages | None = None
        self.asked_to_share = False
        self.cutoff = self.nbytes  # Bytes; what starts above isn't brought in.
        self._cut = False  # A table has a cut-off.
        self.floor = 0
        self.table = make_table(self.nbytes, index)
        self._held = HeldPages(self.table, pageout) if self.table is not None and pageout is not None else None
        # Address space that can't be touched, where there are no pages: addresses are told all the same.
        self._place = self.table if self.table is not None else AddressSpace(self.nbytes)
        self.page_bytes = self.table.page_bytes if self.table is not None else PAGE_BYTES_WITHOUT
        self.base = self._place.address
        # For what is still pinned when its user drops it: nothing else would tell when the pages may go. They keep no user.
        self._ends: list[Callable[[int], None]] = []
        self._end = weakref.finalize(self, _unpin_all, self._ends, functools.partial(devices.stream_of, index))
        self._end.atexit = False
        if self.table is not None:
            self._ends.append(functools.partial(_unpin_rest, self.table, self._pins))
        if self._held is not None:
            self._ends.append(self._held.ending())
        with _tables_lock:
            _tables.add(self)

    # ---- shared pages ----

    def share(self, descriptors: Sequence[int], weights: Sequence[Weights]) -> None:
        """Has the service fill the weights, which are pieces of these files. Once: addresses stay. Nothing is shared where
        another VBAR of this process has the same."""
        self.asked_to_share = True
        if weights and self.table is not None and self._held is None:
            laid = lay_out(descriptors, weights)
            table = shared_tables.make_table(laid.descriptors, laid.pieces, self.index)
            if table is not None:
                self._shared = SharedPages(table, laid.offsets, pin, make_private)
                self._ends.append(functools.partial(_unpin_rest, self._shared.table, self._shared.pins))

    def moved(self, address: int) -> int:
        """Where an allocation lies from now on."""
        found = self._shared.address_of(address - self.base) if self._shared is not None else None
        return address if found is None else found

    def is_shared(self, address: int) -> bool:
        return self._shared is not None and self._shared.covers(address)

    # ---- faults ----

    def fault(self, address: int, nbytes: int) -> Any:
        """Pins the range; the serials of its pages. None: offloaded."""
        safe_points.in_call()
        if self._shared is not None and self._shared.covers(address):
            before = self._shared.private_made
            found = self._shared.fault(address, nbytes)
            _count("pages_made_private", self._shared.private_made - before)
        else:
            self._check(address - self.base, nbytes)
            found = self._fault(address - self.base, nbytes)
        _count("offloaded" if found is None else "faults")
        return found

    def is_refused(self, address: int) -> bool:
        """The caller of a fault there is about to write, and must not: the page is others' too, and no copy of it was to be had."""
        return self._shared is not None and self._shared.is_refused(address)

    def unpin(self, address: int, nbytes: int) -> None:
        """Gives up one fault of this very range; without one it does nothing."""
        if self._shared is not None and self._shared.covers(address):
            done = self._shared.unpin(address, nbytes, devices.stream_of(self.index))
        else:
            done = self._unpin(address - self.base, nbytes)
        _count("unpins" if done else "stray_unpins")
        safe_points.in_call()

    def _fault(self, offset: int, nbytes: int) -> Any:
        if self.table is None or not pin(self.table, offset, nbytes):
            return None
        if self._held is not None:
            self._held.pinned(self._pages(offset, nbytes))
        # None: of a run of the service that is over. It can't be recognised again.
        serials = [serial or unknown() for serial in self.table.serials(offset, nbytes)]
        self._pins.add(offset, nbytes)
        return signature(serials, nbytes, self.page_bytes)

    def _unpin(self, offset: int, nbytes: int) -> bool:
        if not self._pins.take(offset, nbytes):
            return False
        if self.table is not None:
            self.table.unpin(offset, nbytes, devices.stream_of(self.index))
        if self._held is not None:
            self._held.unpinned(self._pages(offset, nbytes))
        return True

    # ---- room ----

    def prioritize(self) -> None:
        if self.table is None:
            return
        if self._cut:
            self.set_cutoff(self.nbytes)
        self.table.prioritize()
        if self._shared is not None:
            self._shared.table.prioritize()

    def set_cutoff(self, nbytes: int) -> None:
        self._cut_off(nbytes, nbytes)

    def _cut_off(self, own: int, shared: int) -> None:
        """Of the private table, and of the shared one, which has another layout."""
        self.cutoff = min(own, self.nbytes)
        self._cut = min(own, shared) < self.nbytes
        for table, end in zip(self.tables(), (own, shared)):
            table.set_cutoff(end if end < self.nbytes else None)

    def free(self, nbytes: int) -> int:
        """Gives pages back from the end; the bytes that the device really got. What was freed stays free until the next
        prioritize()."""
        if self.table is None or nbytes <= 0:
            return 0
        devices.wait_for(self.index)  # A page that queued work uses can't go.
        freed = 0
        for table in self.tables():
            above = sum(self.page_bytes for page, serial in enumerate(_all_serials(table))
                        if serial and page * self.page_bytes >= self.floor)
            wanted = min(nbytes - freed, above)
            if self._held is not None:
                self._held.let_go(lambda page: page * self.page_bytes >= self.floor, -(-wanted // self.page_bytes))
                devices.wait_for(self.index)
            freed += table.free(wanted, FREE_SECONDS) if wanted > 0 else 0
        if self._shared is not None and freed < nbytes and self.floor == 0 and not self._has_siblings(self._shared):
            self._shared.drop_unused()  # Nobody counts these.
        _count("freed_bytes", freed)
        shared = max(self._resident(self._shared.table), default=-1) + 1 if self._shared is not None else 0
        resident = (page for page, state in enumerate(self.residency()) if state & 1)
        self._cut_off((max(resident, default=-1) + 1) * self.page_bytes, shared * self.page_bytes)
        return freed

    def _has_siblings(self, shared: SharedPages) -> bool:
        """Another model of this process pages weights of the same files."""
        ours = set(shared.table.checkpoints)
        others = (other._shared for other in _all_tables() if other is not self)
        return any(ours & set(other.table.checkpoints) for other in others if other is not None)

    def answer_wanted(self, at_end: bool) -> None:
        """`at_end`: of a node or prompt, where nothing is in flight; what is let go leaves the device right there."""
        held, table = self._held, self.table
        given = held.answer_wanted(growing=at_end) if held is not None else 0
        if given and at_end and table is not None:
            devices.wait_for(self.index)
            table.free(given * self.page_bytes, safe_points.FREE_SECONDS)  # All others are held.

    def give_held(self, nbytes: int) -> int:
        """Lets pages with a page-out callback go, for a fault that found no room, or where the service wants so much."""
        if self._held is None:
            return 0
        return self._held.let_go(lambda page: True, -(-nbytes // self.page_bytes)) * self.page_bytes

    @property
    def mapped_bytes(self) -> int:
        """Pages of its own, and shared ones that nobody else has."""
        own = self.table.mapped_bytes if self.table is not None else 0
        return own + (self._shared.mapped_bytes if self._shared is not None else 0)

    @property
    def page_count(self) -> int:
        return -(-self.nbytes // self.page_bytes)

    def residency(self) -> list[int]:
        """A number a page: 1 resident, 2 pinned by this process, or both."""
        pinned = {page for span in self._pins.ranges() for page in self._pages(*span)}
        resident = self._resident(self.table) if self.table is not None else set()
        if self._shared is not None:  # As if its weights lay where they were allocated.
            there = {page for span in self._shared.pins.ranges() for page in self._shared.pages_of(*span)}
            pinned |= {page for span in self._shared.origins(there) for page in self._pages(*span)}
            there = self._resident(self._shared.table)
            resident |= {page for span in self._shared.origins(there) for page in self._pages(*span)}
        return [(1 if page in resident else 0) | (2 if page in pinned else 0) for page in range(self.page_count)]

    def close(self) -> None:
        with _tables_lock:
            _tables.discard(self)
        tables = self.tables()
        self._end()
        devices.wait_for(self.index)  # Else pages that work still uses would go at a later call.
        self.table = self._held = self._shared = None
        for table in tables:
            # Views into it are dead from now on, as its caller wanted.
            shared_tables.close(table) if isinstance(table, AssembledTable) else table.close()

    def tables(self) -> list[PageTable]:
        """The private one first: its pages are certain to make room."""
        tables: list[PageTable] = [self.table] if self.table is not None else []
        return tables + ([self._shared.table] if self._shared is not None else [])

    @staticmethod
    def _resident(table: PageTable) -> set[int]:
        return {page for page, serial in enumerate(_all_serials(table)) if serial}

    def _pages(self, offset: int, nbytes: int) -> range:
        return range(offset // self.page_bytes, (offset + max(nbytes, 1) - 1) // self.page_bytes + 1)

    def _check(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise RuntimeError(f"penstock: {nbytes} bytes at {offset} leave the VBAR of {self.nbytes}")


def mapped_bytes(index: int | None = None) -> int:
    """Of all VBARs of a device."""
    with _tables_lock:
        found = [table for table in _tables if index is None or table.index == index]
    return sum(table.mapped_bytes for table in found)


def present_bytes(index: int) -> int:
    """As mapped_bytes, and shared pages that others have, too."""
    with _tables_lock:
        found = [table for table in _tables if table.index == index]
    return sum(inner.mapped_bytes for table in found for inner in table.tables())


def indices() -> set[int]:
    """Of devices that there are VBARs for."""
    with _tables_lock:
        return {table.index for table in _tables}


def counts() -> types.MappingProxyType[str, int]:
    return types.MappingProxyType(_counts)


def _count(name: str, by: int = 1) -> None:
    with _tables_lock:
        _counts[name] += by


def reset_floors() -> None:
    with _tables_lock:
        for table in _tables:
            table.floor = 0


def _unpin_all(ends: list[Callable[[int], None]], stream: Callable[[], int]) -> None:
    for end in ends:
        try:
            end(stream())
        except (penstock.PenstockError, RuntimeError) as error:  # A driver that has gone. The table goes all the same.
            say_once(f"what a model had pinned stays until the prompt ends: {error}", logging.DEBUG)
    ends.clear()


def _unpin_rest(table: PageTable, pins: Pins, stream: int) -> None:
    for offset, nbytes in pins.take_all():
        table.unpin(offset, min(nbytes, table.nbytes - offset), stream)


def _all_serials(table: PageTable) -> Any:
    return table.serials(0, table.nbytes)


def pin(table: PageTable, offset: int, nbytes: int) -> bool:
    """False: there is no room now, or no service."""
    if offset + nbytes > table.nbytes:  # Address space that the device could never fill.
        return False
    if try_pin(table, offset, nbytes):
        return True
    # Pages that keep our pin are no victims of the service's: ask their owners.
    return _let_others_go(nbytes) and try_pin(table, offset, nbytes)


def _let_others_go(nbytes: int) -> bool:
    return give_held_everywhere(nbytes) >= nbytes


def give_held_everywhere(nbytes: int) -> int:
    """Of the pages with a page-out callback, no more than are wanted; the bytes that nobody holds any more."""
    given = 0
    for table in _all_tables():
        if given >= nbytes:
            break
        more = table.give_held(nbytes - given)
        if more:
            devices.wait_for(table.index)
        given += more
    return given


def answer_wanted_everywhere(at_end: bool) -> None:
    """Pages with a page-out callback that the service asked for; the next end gives more if that was too little."""
    for table in _all_tables():
        table.answer_wanted(at_end)


def _all_tables() -> list[VbarPages]:
    with _tables_lock:
        return list(_tables)


safe_points.hold_pages(answer_wanted_everywhere, give_held_everywhere)
