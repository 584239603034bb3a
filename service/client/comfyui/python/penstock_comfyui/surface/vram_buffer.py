# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.vram_buffer: what weights are cast into where they have no page."""

from __future__ import annotations

from typing import Any

from penstock_comfyui import host_memory, theirs
from penstock_comfyui.devices import on_host

lib = theirs.module("control")


class VRAMBuffer:
    def __new__(cls, max_size: int, device: int) -> Any:
        other = None if on_host(device) else theirs.module("vram_buffer")
        return super().__new__(cls) if other is None else other.VRAMBuffer(max_size, device)

    def __init__(self, max_size: int, device: int) -> None:
        self.device = device
        self.max_size = int(max_size)
        self._memory = host_memory.GrowingMemory(self.max_size, device)
        self.base_addr = self._memory.address

    def size(self) -> int:
        return self._memory.size

    def get(self, size: int, offset: int = 0) -> tuple[VRAMBuffer, int, int]:
        """Grows to hold the range; never shrinks."""
        self._memory.grow(int(offset) + int(size))
        return self, self.base_addr + int(offset), int(size)
