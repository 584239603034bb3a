# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.vram_buffer: what weights are cast into where they have no page."""

from __future__ import annotations

import functools
from typing import Any

from penstock_comfyui import devices, host_memory, pager, tables, theirs
from penstock_comfyui.device_memory import DeviceMemory

lib = theirs.module("control")


class VRAMBuffer:
    def __new__(cls, max_size: int, device: int) -> Any:
        other = None if devices.ours(device) else theirs.module("vram_buffer")
        return super().__new__(cls) if other is None else other.VRAMBuffer(max_size, device)

    def __init__(self, max_size: int, device: int) -> None:
        self.device = device
        self.max_size = int(max_size)
        self._memory = _memory_of(self.max_size, device)
        self.base_addr = self._memory.address

    def size(self) -> int:
        return self._memory.size

    def get(self, size: int, offset: int = 0) -> tuple[VRAMBuffer, int, int]:
        """Grows to hold the range; never shrinks."""
        return self, self._memory.place(int(offset), int(size)), int(size)


def _memory_of(nbytes_max: int, index: int) -> DeviceMemory | host_memory.GrowingMemory:
    driver = devices.driver_of(index) if devices.on_gpu(index) is not None else None
    if driver is None:
        return host_memory.GrowingMemory(nbytes_max, index)
    table = tables.make_table(nbytes_max, index)
    return DeviceMemory(table, nbytes_max, index, driver, pager.pin, functools.partial(devices.stream_of, index))
