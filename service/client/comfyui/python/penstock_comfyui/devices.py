# SPDX-License-Identifier: Apache-2.0
"""Which of ComfyUI's devices the service serves."""

from __future__ import annotations

import os
import sys

import penstock
from penstock_comfyui import gpu, theirs
from penstock_comfyui.gpu_trial import Trial
from penstock_comfyui.link import AWAY, link, say_once

# "0": GPUs are left to the modules that were there before. "1": none is, untried. Else a trial decides.
ON_GPUS = "PENSTOCK_COMFYUI_GPU"

_gpus: dict[int, penstock.Device] = {}
_trials: dict[int, Trial] = {}
_ids: dict[int, str] = {}


def on_host(index: int | None) -> bool:
    """Weights of this device lie in host memory."""
    if index is None or index < 0 or index in _gpus:
        return False
    arguments = getattr(sys.modules.get("comfy.cli_args"), "args", None)
    if arguments is not None:
        return bool(getattr(arguments, "cpu", False))
    return not theirs.works() and _wish() != "1"


def on_gpu(index: int | None) -> penstock.Device | None:
    """The service's device for one of ComfyUI's GPUs; found once, it stays that."""
    if index is None or index < 0 or _wish() == "0":
        return None
    if index not in _gpus:
        found = _find_gpu(index)
        if found is None or not _tried(index, found):
            return None
        _gpus[index] = found
    return _gpus[index]


def ours(index: int | None) -> bool:
    """Others are left to the modules that were there before."""
    return on_host(index) or on_gpu(index) is not None


def dynamic() -> bool:
    """ComfyUI pages weights at all: DynamicVRAM. Without it (`--highvram`, an old torch) nothing of it lies in pages, whosever the
    device is. Known once ComfyUI's start is through."""
    return bool(getattr(sys.modules.get("comfy.memory_management"), "aimdo_enabled", False))


def device_of(index: int) -> penstock.Device | None:
    """The service's; None: it has none for this one."""
    service = link.service()
    if service is None:
        return None
    if on_host(index):
        return next((one for one in service.devices if one.kind == "host"), None)
    return on_gpu(index)


def driver_of(index: int | None) -> gpu.Driver | None:
    """None: its memory is the processor's."""
    found = _gpus.get(index) if index is not None else None
    return gpu.driver(found.kind) if found is not None else None


def drivers() -> list[gpu.Driver]:
    """Of the GPUs that are ours."""
    found = [gpu.driver(kind) for kind in sorted({one.kind for one in _gpus.values()})]
    return [one for one in found if one is not None]


def stream_of(index: int) -> int:
    """Where the calling thread's work on the device goes."""
    return gpu.current_stream(index) if index in _gpus else 0


def wait_for(index: int) -> bool:
    """The device has done what was queued. False: it has failed, and nobody knows what it does."""
    driver = driver_of(index)
    if driver is None:
        return True
    with gpu.current(index):
        return driver.wait()


def id_of(index: int | None) -> str | None:
    """The service's name for a device, also where its weights are left to comfy-aimdo. None for host memory."""
    if index is None or on_host(index):
        service = link.service()
        return next((one.id for one in service.devices if one.kind == "host"), None) if service is not None else None
    if index not in _ids:
        found = _gpus.get(index) or _find_gpu(index, silent=True)
        if found is None:
            return None
        _ids[index] = found.id
    return _ids[index]


def forget() -> None:
    """Another service from now on."""
    _gpus.clear()
    _ids.clear()
    _trials.clear()


def _wish() -> str:
    return os.environ.get(ON_GPUS, "")


def _tried(index: int, device: penstock.Device) -> bool:
    if _wish() == "1":
        return True
    return _trials.setdefault(index, Trial(index, device)).passed()


def _find_gpu(index: int, silent: bool = False) -> penstock.Device | None:
    service = link.service()
    if service is None:
        return None
    try:
        gpus = [one for one in service.devices if one.kind in ("cuda", "hip")]
    except AWAY as error:
        link.away(error)
        return None
    for vendor in ("cuda", "hip"):
        driver = gpu.driver(vendor)
        digits = driver.digits(index) if driver is not None else ""
        for one in gpus:
            if digits and one.id == f"{vendor}-{digits}":
                return one
    if gpus and not silent:
        say_once(f"none of the service's GPUs is number {index} here; it is left to comfy-aimdo")
    return None
