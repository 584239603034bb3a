# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.model_vbar: an address range for a model's weights, of which some pages have memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from penstock_comfyui import pager, theirs
from penstock_comfyui.devices import on_host, ours
from penstock_comfyui.layout import ALIGNMENT
from penstock_comfyui.link import link

lib = theirs.module("control")
PageoutCallback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_uint64, ctypes.c_uint64)


class ModelVBAR:
    def __new__(cls, size: int, device: int, pageout_callback: Callable[[int, int], Any] | None = None) -> Any:
        other = None if ours(device) and not _better_theirs(device) else theirs.module("model_vbar")
        if other is None:
            return super().__new__(cls)
        options = {} if pageout_callback is None else {"pageout_callback": pageout_callback}
        return other.ModelVBAR(size, device, **options)

    def __init__(self, size: int, device: int, pageout_callback: Callable[[int, int], Any] | None = None) -> None:
        # Ours alone: what no version of comfy_aimdo has is no part of this class.
        self._pages = pager.VbarPages(int(size), device, pageout_callback)
        self.device = device
        self.base_addr = self._pages.base
        self.max_size = int(size)
        self.offset = 0

    def prioritize(self, malloc_async_clamp: int | None = None) -> None:
        """Pages of this model are worth the most from now on, and any of them may be faulted in again."""
        self._pages.prioritize()

    def deprioritize(self) -> None:
        """The service weighs pages by their use: a model that nobody uses sinks by itself."""

    def alloc(self, num_bytes: int) -> tuple[ModelVBAR, int, int]:
        start = -(-self.offset // ALIGNMENT) * ALIGNMENT
        self.offset = start
        if num_bytes < 0 or start + num_bytes > self.max_size:
            raise MemoryError(f"penstock: the VBAR of {self.max_size} bytes has no {num_bytes} left")
        self.offset += num_bytes
        return self, self.base_addr + start, num_bytes

    def fault(self, alloc: int, size: int) -> Any:
        return self._pages.fault(alloc, size)

    def unpin(self, alloc: int, size: int) -> None:
        self._pages.unpin(alloc, size)

    def loaded_size(self) -> int:
        return self._pages.mapped_bytes

    def set_watermark_limit(self, size_bytes: float) -> None:
        """free_memory() takes nothing below, until vbars_reset_watermark_limits()."""
        self._pages.floor = int(size_bytes)

    def set_watermark(self, size_bytes: float) -> None:
        self._pages.set_cutoff(int(min(size_bytes, self.max_size)))

    def free_memory(self, size_bytes: float) -> int:
        # ComfyUI says 1e30 for all of it.
        return self._pages.free(int(min(size_bytes, 2 * self.max_size)))

    def get_nr_pages(self) -> int:
        return self._pages.page_count

    def get_watermark(self) -> int:
        return min(self._pages.cutoff // self._pages.page_bytes, self._pages.page_count)

    def get_residency(self) -> list[int]:
        return self._pages.residency()

    def close(self) -> None:
        """Its pages go now. Without it, they go with the last reference, views included."""
        self._pages.close()


def vbar_fault(alloc: tuple[Any, int, int]) -> Any:
    return alloc[0].fault(alloc[1], alloc[2])


def vbar_unpin(alloc: tuple[Any, int, int] | None) -> None:
    if alloc is not None:
        alloc[0].unpin(alloc[1], alloc[2])


def vbar_signature_compare(a: Any, b: Any) -> bool:
    """The bytes of both faults are the same ones. Who is told that they aren't will write there."""
    if a is None:
        return False
    if b is not None:
        if len(a) != len(b):
            raise ValueError(f"penstock: signatures of ranges of other sizes, {len(a)} and {len(b)}")
        if memoryview(a) == memoryview(b):
            return True
    claim = getattr(a, "claim", None)
    if claim is not None:
        claim(a)
    return False


def vbars_reset_watermark_limits() -> None:
    pager.reset_floors()
    if theirs.works():
        theirs.call("model_vbar", "vbars_reset_watermark_limits")


def vbars_analyze(device: int | None = None) -> int:
    """Bytes of all VBARs of the device; None: the first."""
    index = 0 if device is None else device
    own = pager.mapped_bytes(index) if ours(index) else 0
    if on_host(index):
        return own
    return own + int((theirs.call("model_vbar", "vbars_analyze", device) if theirs.works() or not ours(index) else 0) or 0)


def _better_theirs(device: int) -> bool:
    """A GPU of ours while the service is away: pages of theirs are worth more than none for a model's whole life."""
    return not on_host(device) and theirs.works() and link.service() is None and theirs.init(device)
