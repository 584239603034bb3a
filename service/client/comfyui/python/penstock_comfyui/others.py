# SPDX-License-Identifier: Apache-2.0
"""What the service could take back from other processes on a device, and how it is asked to.

It isn't asked for pages: bytes are booked, so that nobody gets what became free before ComfyUI has used it. The service takes
unpinned pages by its own policy, with whatever deadlines its clients have.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

import penstock
from penstock import errors
from penstock_comfyui import pager, safe_points
from penstock_comfyui.link import QUESTION_SECONDS, SilentError, link

SHRINK_SECONDS = 1.0
FIGURES_SECONDS = 0.1

_all: weakref.WeakSet[OnDevice] = weakref.WeakSet()


def release() -> None:
    """All bookings: ComfyUI has used what it asked for, or never will."""
    for one in list(_all):
        one.release()


class OnDevice:
    """Of one device. Used where ComfyUI makes room; never raises."""

    def __init__(self, device: str, index: int | None) -> None:
        self.device = device
        self._index = index
        self._booked: list[penstock.Grant] = []
        _all.add(self)

    def bytes(self) -> int:
        """Pages that somebody else has and nobody has pinned, as of a moment ago."""
        return self._evictable(safe_points.recent_status())

    def shrink(self, nbytes: int) -> int:
        """Bytes that really became free; less where they are pinned, or where the service says no."""
        freed: list[int] = [0]
        if nbytes > 0:
            safe_points.with_service(lambda service: freed.append(self._shrink(service, nbytes)))
        return freed[-1]

    def release(self) -> None:
        while self._booked:
            self._booked.pop().release()

    def _shrink(self, service: penstock.Service, nbytes: int) -> int:
        status = link.answer(service.status)
        before = _device(status, self.device)
        wanted = min(nbytes, self._evictable(status))
        if wanted == 0:
            return 0
        # A booking is first met out of room that is not used; only what is beyond that makes pages go.
        unused = unused_bytes(before)
        try:
            self._booked.append(link.answer(lambda: service.admit(
                work=unused + wanted, minimum_work=unused + 1, timeout=SHRINK_SECONDS, device=self.device),
                SHRINK_SECONDS + QUESTION_SECONDS))
        except SilentError:
            raise
        except errors.DeadlineError:
            pass  # Not all in time; what went is free.
        return self._freed(service, int(before["used_bytes"]), wanted)

    def _freed(self, service: penstock.Service, used_before: int, wanted: int) -> int:
        """The service's figures follow what it did by some milliseconds."""
        end = time.monotonic() + FIGURES_SECONDS
        while True:
            freed = max(0, used_before - int(_device(link.answer(service.status), self.device)["used_bytes"]))
            if freed >= wanted or time.monotonic() >= end:
                return freed
            time.sleep(0.002)

    def _evictable(self, status: dict[str, Any]) -> int:
        found = _device(status, self.device)
        own = pager.present_bytes(self._index) if self._index is not None else 0
        return max(0, int(found.get("resident_bytes", 0)) - int(found.get("pinned_bytes", 0)) - own)


def unused_bytes(device: dict[str, Any]) -> int:
    """That a booking is met out of before pages go. The budget follows what was just released by a moment, what may be admitted
    doesn't."""
    return max(0, int(device["admissible_bytes"]) - int(device["used_bytes"]))


def _device(status: dict[str, Any], device: str) -> dict[str, Any]:
    return next((one for one in status.get("devices", ()) if one["id"] == device), {})
