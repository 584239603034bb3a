# SPDX-License-Identifier: Apache-2.0
"""What is kept free for others: in ComfyUI's own number, and in the headroom of devices that the service doesn't serve.

Of devices that it does serve, the service takes care itself: what the user wants to stay free there is booked while ComfyUI
computes (`work`).
"""

from __future__ import annotations

import ctypes
from typing import Any

from penstock_comfyui import devices, host_memory, safe_points, theirs
from penstock_comfyui.link import say_once

_THEIR_HEADROOM = 256 << 20  # Where nobody sets one.

_headroom: int | None = None
_kept_free: dict[int, int] = {}  # On devices that the service serves, beside that.
_promised = 0


def set_headroom(nbytes: int, told: bool = False) -> None:
    """What the user wants to be free. `told`: theirs has that number already."""
    global _headroom
    _headroom = nbytes
    if not told or _promised:
        _tell()


def headroom() -> int:
    """What the user wants to be free; what others were promised is not in it."""
    if _headroom is not None:
        return _headroom
    return int((theirs.call("control", "get_simple_vram_headroom") if theirs.works() else 0) or 0)


def keep_free(devices_with_bytes: dict[int, int]) -> None:
    """Of devices that the service serves. (ComfyUI's --reserve-vram is in what it keeps for inference already.)"""
    _kept_free.clear()
    _kept_free.update(devices_with_bytes)


def kept_free(device: int) -> int:
    return _kept_free.get(device, 0)


def promised() -> int:
    """Of ComfyUI's reserve: what others were promised, as last published."""
    return _promised


class Reserve:
    """EXTRA_RESERVED_VRAM: its own number, and what the service promised to others on ComfyUI's devices."""

    def __init__(self, management: Any) -> None:
        self._management = management
        self._own = self._published = management.EXTRA_RESERVED_VRAM

    def publish(self) -> None:
        """Never raises: it runs where ComfyUI loads models."""
        global _promised
        try:
            if self._management.EXTRA_RESERVED_VRAM != self._published:
                self._own = self._management.EXTRA_RESERVED_VRAM  # Somebody else's number, since we last looked.
            promised = safe_points.promised_to_others(host_memory.booked_bytes, self._devices)
            self._published = self._management.EXTRA_RESERVED_VRAM = self._own + promised
            if promised != _promised:
                _promised = promised
                _tell()
        except Exception as error:  # noqa: BLE001
            say_once(f"what others were promised is not kept free: {type(error).__name__}: {error}")

    def _devices(self) -> set[str]:
        """The service's names for those that ComfyUI computes on."""
        found = {devices.id_of(device.index) for device in self._management.get_all_torch_devices()}
        return {name for name in found if name is not None}


def _tell() -> None:
    if not theirs.works():
        return  # There is no other pager.
    whole = (_headroom if _headroom is not None else _THEIR_HEADROOM) + _promised
    if theirs.has("control", "set_simple_vram_headroom"):
        theirs.call("control", "set_simple_vram_headroom", whole)
        return
    # Before 0.5.6 there is only the native function.
    native = getattr(getattr(theirs.module("control"), "lib", None), "set_simple_vram_headroom", None)
    if native is not None:
        native(ctypes.c_int64(whole))
