# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.control."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from penstock_comfyui import host_memory, pager, reserve, theirs
from penstock_comfyui.devices import ours
from penstock_comfyui.link import link, log


class _NoLibrary:
    """Truthy, since others ask only whether there is one."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"penstock has no native function {name} of comfy_aimdo")


lib: Any = getattr(theirs.module("control"), "lib", None) or _NoLibrary()
devctxs: Any = getattr(theirs.module("control"), "devctxs", [])

_ours: set[int] = set()


def detect_vendor() -> Any:
    return theirs.call("control", "detect_vendor")


def init(implementation: Any = None, simple_vram_headroom: int | None = None, nvml_pressure: bool = False) -> bool:
    """Theirs has been called by ComfyUI before we came; later calls only change numbers."""
    global lib
    answer = theirs.works() and bool(_call_init(implementation, simple_vram_headroom, nvml_pressure))
    lib = getattr(theirs.module("control"), "lib", None) or lib or _NoLibrary()
    if simple_vram_headroom is not None:
        reserve.set_headroom(int(simple_vram_headroom), told=True)
    if theirs.works():
        return answer
    return link.service() is not None


def _call_init(implementation: Any, simple_vram_headroom: int | None, nvml_pressure: bool) -> Any:
    try:
        return theirs.call("control", "init", implementation, simple_vram_headroom, nvml_pressure)
    except TypeError:  # 0.4.10
        return theirs.call("control", "init", implementation, simple_vram_headroom)


def init_devices(device_ids: Iterable[Any]) -> bool:
    global devctxs
    asked = list(device_ids)
    numbers = [_number(one) for one in asked]
    if numbers and all(ours(number) for number in numbers) and link.service() is not None:
        _ours.update(numbers)
        reserve.keep_free({number: int(one[1]) for number, one in zip(numbers, asked) if isinstance(one, tuple)})
        theirs.later(dict(zip(numbers, asked)))
        devctxs = [get_devctx(number) for number in numbers]
        return True
    answer = bool(theirs.call("control", "init_devices", asked))
    devctxs = getattr(theirs.module("control"), "devctxs", [])
    return answer


def _number(asked: Any) -> Any:
    """Of a device, with what is to be kept free there or without."""
    if not isinstance(asked, tuple):
        return asked
    if len(asked) != 2 or int(asked[1]) < 0:
        raise ValueError(f"penstock: {asked} is no device with a number of bytes to be kept free")
    return asked[0]


def init_device(device_id: int, extra_vram_headroom: int = 0) -> bool:
    return init_devices([(device_id, extra_vram_headroom)])


def record(stream: Any, assert_graph_breaks: bool = False) -> Any:
    from penstock_comfyui.surface import malloc_graph

    return malloc_graph.record(stream, assert_graph_breaks)


def get_devctx(device_id: int) -> Any:
    if device_id in _ours:
        return device_id + 1  # Others' are addresses: none is false.
    found = theirs.call("control", "get_devctx", device_id) if theirs.works() else None
    if found is None:
        raise RuntimeError(f"device {device_id} is not initialised")
    return found


def set_simple_vram_headroom(headroom: int) -> None:
    reserve.set_headroom(int(headroom))


def get_simple_vram_headroom() -> int:
    """What was set; what is kept free for others beside it is not in it."""
    return reserve.headroom()


def deinit() -> None:
    global devctxs, lib
    _ours.clear()
    reserve.keep_free({})
    theirs.later({})
    theirs.call("control", "deinit")
    devctxs, lib = [], None


def set_log_none() -> None:
    _set_log("none", logging.CRITICAL + 10)


def set_log_critical() -> None:
    _set_log("critical", logging.CRITICAL)


def set_log_error() -> None:
    _set_log("error", logging.ERROR)


def set_log_warning() -> None:
    _set_log("warning", logging.WARNING)


def set_log_info() -> None:
    _set_log("info", logging.INFO)


def set_log_debug() -> None:
    _set_log("debug", logging.DEBUG)


def set_log_verbose() -> None:
    _set_log("verbose", logging.DEBUG)


def set_log_vverbose() -> None:
    _set_log("vverbose", logging.DEBUG)


def _set_log(name: str, level: int) -> None:
    log.setLevel(level)
    if theirs.works():
        theirs.call("control", f"set_log_{name}")


def analyze() -> None:
    """What is where, in the log."""
    told = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in pager.counts().items())
    log.debug("penstock: %d bytes of weights here, %d of cast buffers; so far %s", pager.mapped_bytes(),
              host_memory.growing_bytes(), told)
    if theirs.works():
        theirs.call("control", "analyze")


def get_total_vram_usage() -> int:
    other = theirs.call("control", "get_total_vram_usage") if theirs.works() else 0
    return pager.mapped_bytes() + host_memory.growing_bytes() + int(other or 0)
