# SPDX-License-Identifier: Apache-2.0
"""What torch will allocate on a GPU of ours, booked before it does: pages make room beforehand, and not when an allocation has
failed. Before a load what ComfyUI says it takes, where a node asks for room itself so much, and before any other node what
ComfyUI keeps for inference. Without DynamicVRAM ComfyUI's ledger does that, by the stand-in: the same bytes would be booked twice.

ComfyUI's prompt thread alone. Never fails what it precedes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import penstock
from penstock_comfyui import devices, reserve, safe_points
from penstock_comfyui.link import AWAY, QUESTION_SECONDS, link, say_once
from penstock_comfyui.others import unused_bytes

WAIT_SECONDS = 1.0
EVERYTHING = 1e29  # ComfyUI asks for more than that where it unloads all.

_booked: dict[str, penstock.Grant] = {}


def book(management: Any, models: Iterable[Any], memory_required: Any) -> None:
    """Before a load."""
    _book_on(management, lambda: {one.load_device.index for one in models}, memory_required)


def book_asked(management: Any, device: Any, memory_required: Any) -> None:
    """Before what ComfyUI, or a node, makes room for without a load."""
    _book_on(management, lambda: {device.index} if device is not None and memory_required < EVERYTHING else set(), memory_required)


def book_node(management: Any) -> None:
    """Before a node, of which nobody knows yet what it will do: it isn't waited for."""
    release()
    _book_on(management, lambda: {management.get_torch_device().index}, 0, wait_seconds=0)


def _book_on(management: Any, find: Callable[[], set[int]], memory_required: Any, wait_seconds: float | None = None) -> None:
    """In place of what was booked there before. Where the service says no, ComfyUI goes on as it would without us."""
    if not devices.dynamic():
        return
    try:
        for index in find():
            device = devices.on_gpu(index)
            service = link.service()
            if device is not None and service is not None:
                _release(device.id)
                _book(service, device.id, index, _growth(management, index, memory_required),
                      WAIT_SECONDS if wait_seconds is None else wait_seconds)
    except AWAY as error:
        link.away(error)
    except Exception as error:  # noqa: BLE001
        say_once(f"what is computed is not booked: {type(error).__name__}: {error}")


def release() -> None:
    """The node has ended, or somebody else of this ComfyUI is about to wait for room, which nobody may who was promised some."""
    for device in list(_booked):
        _release(device)


def _release(device: str) -> None:
    grant = _booked.pop(device, None)
    if grant is not None:
        grant.release()


def booked_bytes(device: str) -> int:
    grant = _booked.get(device)
    return grant.work_bytes if grant is not None else 0


def _growth(management: Any, index: int, memory_required: Any) -> int:
    """What torch has and doesn't use it needn't get; what others were promised is no part of it. What the user wants to stay
    free is: nobody else gets that while we compute."""
    wanted = int(memory_required) + max(0, int(management.minimum_inference_memory()) - reserve.promised())
    wanted += reserve.kept_free(index)
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return wanted
    return max(0, wanted - int(torch.cuda.memory_reserved(index)) + int(torch.cuda.memory_allocated(index)))


def _book(service: penstock.Service, device: str, index: int, nbytes: int, wait_seconds: float) -> None:
    if nbytes == 0:
        return
    try:
        _booked[device] = link.answer(lambda: service.admit(work=nbytes, timeout=0, device=device))
    except AWAY:
        raise
    except penstock.PenstockError:
        _book_after_giving(service, device, index, nbytes, wait_seconds)


def _book_after_giving(service: penstock.Service, device: str, index: int, nbytes: int, wait_seconds: float) -> None:
    """Nobody waits for pages of ours while we wait: they go in our own calls alone."""
    devices.wait_for(index)
    status = next(one for one in link.answer(service.status)["devices"] if one["id"] == device)
    unused = unused_bytes(status)
    try:
        if nbytes > unused:
            service.free(nbytes - unused, safe_points.FREE_SECONDS, device)
        _booked[device] = link.answer(lambda: service.admit(work=nbytes, timeout=wait_seconds, device=device),
                                      wait_seconds + QUESTION_SECONDS)
    except AWAY:
        raise
    except penstock.PenstockError as refusal:
        say_once(f"there is no room for what is computed: {refusal.kind}; ComfyUI goes on without it being booked")
