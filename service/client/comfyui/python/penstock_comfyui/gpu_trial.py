# SPDX-License-Identifier: Apache-2.0
"""Do torch and the service's pages of a GPU go together in this process? One page is written and read by both sides
before weights are laid into such pages."""

from __future__ import annotations

import contextlib
import ctypes
import enum
import sys
import time
from typing import Any

import penstock
from penstock import errors
from penstock_comfyui import gpu
from penstock_comfyui.link import AWAY, link, say_once

RETRY_SECONDS = 30.0  # After one that could not be made.
PAGE_SECONDS = 0.5

_PATTERN = bytes(range(1, 252)) * 17  # Longer than a line of any cache, and no power of two.


class Outcome(enum.Enum):
    passed = enum.auto()
    failed = enum.auto()  # For good.
    later = enum.auto()  # Nothing could be tried.


class Trial:
    """Of one GPU."""

    def __init__(self, index: int, device: penstock.Device) -> None:
        self._index = index
        self._device = device
        self._outcome = Outcome.later
        self._next = 0.0

    def passed(self) -> bool:
        if self._outcome is Outcome.later and time.monotonic() >= self._next:
            self._outcome = self._try()
            self._next = time.monotonic() + RETRY_SECONDS
        return self._outcome is Outcome.passed

    def _try(self) -> Outcome:
        torch: Any = sys.modules.get("torch")
        driver, service = gpu.driver(self._device.kind), link.service()
        if torch is None or not hasattr(torch, "as_tensor") or driver is None or service is None:
            return Outcome.later
        try:
            with gpu.current(self._index):
                wrong = self._use_a_page(torch, driver, service)
        except AWAY as error:
            link.away(error)
            return Outcome.later
        except penstock.PenstockError:  # It is busy, or full, or being mended.
            return Outcome.later
        except Exception as error:  # noqa: BLE001 - Whatever it is, weights don't go there.
            if type(error).__name__ == "OutOfMemoryError":
                return Outcome.later
            wrong = f"{type(error).__name__}: {error}"
        if not wrong:
            return Outcome.passed
        say_once(f"GPU {self._index} stays comfy-aimdo's, as torch and the service's pages don't go together here ({wrong})")
        return Outcome.failed

    def _use_a_page(self, torch: Any, driver: gpu.Driver, service: penstock.Service) -> str:
        """What went wrong, if anything."""
        # The context, which the mapping needs, is made by torch.
        torch.zeros(1, device=f"cuda:{self._index}")
        size = self._device.page_bytes
        with contextlib.closing(service.private_table(size, self._device.id)) as table:
            if not table.fault(0, size, PAGE_SECONDS):
                raise errors.OffloadedError("no page")
            try:
                return _what_is_wrong(torch, driver, table.address, self._index)
            finally:
                table.unpin(0, size)
                driver.wait()  # Its pages go with it then.


def _what_is_wrong(torch: Any, driver: gpu.Driver, address: int, index: int) -> str:
    size = len(_PATTERN)
    seen = torch.as_tensor(gpu.Bytes(address, size, None), device=f"cuda:{index}")
    if int(seen.data_ptr()) != address:
        return "torch copies them"
    source = ctypes.create_string_buffer(_PATTERN, size)
    driver.copy_in(ctypes.addressof(source), address, size)
    driver.wait()
    if bytes(seen.tolist()) != _PATTERN:
        return "torch reads other bytes than were written"
    seen.fill_(0xa5)
    driver.wait()
    back = ctypes.create_string_buffer(size)
    driver.copy_out(address, ctypes.addressof(back), size)
    return "" if back.raw == b"\xa5" * size else "what torch writes does not arrive"
