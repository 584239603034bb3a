# SPDX-License-Identifier: Apache-2.0
"""VBARs on a private table of the service: what the surface's ModelVBAR is made of."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import penstock
from penstock import errors
from penstock.memory import PrivateTable
from penstock_comfyui.address_space import AddressSpace
from penstock_comfyui.held_pages import HeldPages
from penstock_comfyui.link import AWAY, link, say_once

ALIGNMENT = 512
FAULT_SECONDS = 10.0
FREE_SECONDS = 10.0
PAGE_BYTES_WITHOUT = 8 << 20  # Of a VBAR that will never have one.
# The service refuses address space beyond this multiple of the device.
RESERVATION_MAX = 64
# Wrong use, or a process that can't have pages: ComfyUI is told. Everything else only means that there is no page now.
WRONG_USE = (errors.InvalidArgumentError, errors.ForkedError)

_tables: weakref.WeakSet[VbarPages] = weakref.WeakSet()
_tables_lock = threading.Lock()


def _start_over() -> None:
    """In a child made by fork: the lock may be held by a thread that isn't here."""
    global _tables_lock
    _tables_lock = threading.Lock()


os.register_at_fork(after_in_child=_start_over)
# Since the start, of all VBARs.
_counts = dict.fromkeys(("faults", "offloaded", "unpins", "stray_unpins", "freed_bytes"), 0)
# Serials for pages whose content nobody vouches for; the service's own stay below.
_unknown = itertools.count(1 << 63)


class VbarPages:
    """The pages of one VBAR. `base` is fixed; without a service everything is offloaded."""

    def __init__(self, nbytes: int, index: int, pageout: Callable[[int, int], Any] | None = None) -> None:
        self.index = index
        self.nbytes = max(int(nbytes), 1)
        self._lock = threading.Lock()
        self._pins: dict[tuple[int, int], int] = {}
        self.cutoff = self.nbytes  # Bytes; what starts above isn't brought in.
        self.floor = 0
        self.table = _make_table(self.nbytes)
        self._held = HeldPages(self.table, pageout) if self.table is not None and pageout is not None else None
        # Address space that can't be touched, where there are no pages: addresses are told all the same.
        self._place = self.table if self.table is not None else AddressSpace(self.nbytes)
        self.page_bytes = self.table.page_bytes if self.table is not None else PAGE_BYTES_WITHOUT
        self.base = self._place.address
        with _tables_lock:
            _tables.add(self)

    # ---- faults ----

    def fault(self, offset: int, nbytes: int) -> ctypes.Array[Any] | None:
        """Pins the range; the serials of its pages. None: offloaded."""
        self._check(offset, nbytes)
        if self._held is not None:
            self._held.answer_wanted()
        if self.table is None or not self._pin(self.table, offset, nbytes):
            _count("offloaded")
            return None
        _count("faults")
        if self._held is not None:
            self._held.pinned(self._pages(offset, nbytes))
        serials = self.table.serials(offset, nbytes)
        for page, serial in enumerate(serials):
            if serial == 0:  # Of a run of the service that is over: it can't be recognised again.
                serials[page] = next(_unknown)
        with self._lock:
            self._pins[offset, nbytes] = self._pins.get((offset, nbytes), 0) + 1
        return serials

    def unpin(self, offset: int, nbytes: int) -> None:
        """Gives up one fault of this very range; without one it does nothing."""
        with self._lock:
            count = self._pins.get((offset, nbytes), 0)
            if count == 1:
                del self._pins[offset, nbytes]
            elif count > 1:
                self._pins[offset, nbytes] = count - 1
        _count("unpins" if count else "stray_unpins")
        if count == 0 or self.table is None:
            return
        self.table.unpin(offset, nbytes)
        if self._held is not None:
            self._held.unpinned(self._pages(offset, nbytes))
            self._held.answer_wanted()

    # ---- room ----

    def prioritize(self) -> None:
        if self.table is None:
            return
        if self.cutoff < self.nbytes:
            self.set_cutoff(self.nbytes)
        self.table.prioritize()

    def set_cutoff(self, nbytes: int) -> None:
        self.cutoff = min(nbytes, self.nbytes)
        if self.table is not None:
            self.table.set_cutoff(self.cutoff if self.cutoff < self.nbytes else None)

    def free(self, nbytes: int) -> int:
        """Gives pages back from the end; the bytes that the device really got. What was freed stays free until the next
        prioritize()."""
        if self.table is None or nbytes <= 0:
            return 0
        above = sum(self.page_bytes for page, serial in enumerate(self._all_serials())
                    if serial and page * self.page_bytes >= self.floor)
        wanted = min(nbytes, above)
        if self._held is not None:
            self._held.let_go(lambda page: page * self.page_bytes >= self.floor, -(-wanted // self.page_bytes))
        freed = self.table.free(wanted, FREE_SECONDS) if wanted > 0 else 0
        _count("freed_bytes", freed)
        resident = [page for page, serial in enumerate(self._all_serials()) if serial]
        self.set_cutoff((resident[-1] + 1) * self.page_bytes if resident else 0)
        return freed

    def give_held(self, nbytes: int) -> int:
        """Lets pages with a page-out callback go, for a fault that found no room."""
        if self._held is None:
            return 0
        return self._held.let_go(lambda page: True, -(-nbytes // self.page_bytes)) * self.page_bytes

    @property
    def mapped_bytes(self) -> int:
        return self.table.mapped_bytes if self.table is not None else 0

    @property
    def page_count(self) -> int:
        return -(-self.nbytes // self.page_bytes)

    def residency(self) -> list[int]:
        """A number a page: 1 resident, 2 pinned by this process, or both."""
        with self._lock:
            pinned = {page for span in self._pins for page in self._pages(*span)}
        serials = self._all_serials()
        return [(1 if page < len(serials) and serials[page] else 0) | (2 if page in pinned else 0)
                for page in range(self.page_count)]

    def close(self) -> None:
        with _tables_lock:
            _tables.discard(self)
        table, self.table, self._held = self.table, None, None
        if table is not None:
            table.close()  # Views into it are dead from now on, as its caller wanted.

    def _all_serials(self) -> Any:
        return self.table.serials(0, self.table.nbytes) if self.table is not None else ()

    def _pages(self, offset: int, nbytes: int) -> range:
        return range(offset // self.page_bytes, (offset + max(nbytes, 1) - 1) // self.page_bytes + 1)

    def _check(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise RuntimeError(f"penstock: {nbytes} bytes at {offset} leave the VBAR of {self.nbytes}")

    def _pin(self, table: PrivateTable, offset: int, nbytes: int) -> bool:
        if offset + nbytes > table.nbytes:  # Address space that the device could never fill.
            return False
        if self._try_pin(table, offset, nbytes):
            return True
        # Pages that keep our pin are no victims of the service's: ask their owners.
        return _let_others_go(nbytes) and self._try_pin(table, offset, nbytes)

    def _try_pin(self, table: PrivateTable, offset: int, nbytes: int) -> bool:
        try:
            # What is here can be pinned without the service; for the rest it isn't asked again and again while away.
            pinned = table.fault(offset, nbytes, FAULT_SECONDS if link.may_ask else 0)
        except WRONG_USE as error:
            raise RuntimeError(f"penstock: {error}") from error
        except AWAY as error:
            link.away(error)
            return False
        except errors.DeadlineError as error:
            if link.may_ask:
                link.away(error)
            return False
        except penstock.PenstockError as error:
            if link.may_ask:
                say_once(f"weights are streamed where there is no page for them: {error.kind}")
            return False
        if pinned and link.may_ask:
            link.back()
        return pinned


def mapped_bytes(index: int | None = None) -> int:
    """Of all VBARs of a device."""
    with _tables_lock:
        found = [table for table in _tables if index is None or table.index == index]
    return sum(table.mapped_bytes for table in found)


def counts() -> types.MappingProxyType[str, int]:
    return types.MappingProxyType(_counts)


def _count(name: str, by: int = 1) -> None:
    with _tables_lock:
        _counts[name] += by


def reset_floors() -> None:
    with _tables_lock:
        for table in _tables:
            table.floor = 0


def _let_others_go(nbytes: int) -> bool:
    with _tables_lock:
        found = list(_tables)
    for table in found:
        nbytes -= table.give_held(nbytes)
        if nbytes <= 0:
            return True
    return False


def _make_table(nbytes: int) -> PrivateTable | None:
    service = link.service()
    if service is None:
        return None
    try:
        device = next((one for one in service.devices if one.kind == "host"), None)
        if device is None:
            say_once("the service has no device for host memory; weights are streamed")
            return None
        table = service.private_table(min(nbytes, device.capacity_bytes * RESERVATION_MAX), device.id)
    except AWAY as error:
        link.away(error)
        return None
    except penstock.PenstockError as error:
        say_once(f"no pages for a model: {error}; its weights are streamed")
        return None
    link.back()
    return table
