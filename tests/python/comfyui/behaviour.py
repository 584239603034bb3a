# SPDX-License-Identifier: Apache-2.0
"""Run by test_behaviour in a process of its own: calls of the modules of comfy_aimdo that need no GPU, and what came of each,
as JSON. The same calls of the published modules and of ours, so that whoever wrote them for one finds the other.

usage: behaviour.py theirs|ours FOLDER NAMES    NAMES: a file with the names to look for, as JSON
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MIB = 1 << 20
FOLDER = Path(sys.argv[2])
Call = tuple[str, Callable[[], Any]]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - This is what is compared.
        return f"raises {type(error).__name__}"
    return found if found is None or isinstance(found, (bool, int, float, str, list)) else type(found).__name__


def whole(found: Any) -> Any:
    return "an integer" if type(found) is int else found


def host_buffers(module: Any) -> Iterator[Call]:
    path = FOLDER / "file"
    path.write_bytes(bytes(range(250)) * 40)
    one = module.HostBuffer(0, -5, 8 * MIB)
    number = 1 << 20  # Of no file.

    def extend(size: int) -> list[Any]:
        before = one.size
        place = one.extend(size=size, register=False)
        base = one.get_raw_address()
        return [one.size, place - base - before if place else place, type(place).__name__]

    def address_stays() -> bool:
        before = one.get_raw_address()
        one.extend(MIB, register=False)
        return bool(before == one.get_raw_address())

    def truncate(size: int) -> list[Any]:
        return [one.truncate(size, do_unregister=False), one.size]  # To unregister takes a driver.

    yield "attributes of a new one", lambda: [one.size, one.prewarm, one.get_raw_address() == 0]
    yield "extend", lambda: extend(1000)
    yield "extend again", lambda: extend(5000)
    yield "extend by nothing", lambda: extend(0)
    yield "address stays", address_stays
    yield "extend beyond its limit", lambda: extend(64 * MIB)
    yield "size after a failure", lambda: one.size
    yield "truncate", lambda: truncate(3000)
    yield "truncate again", lambda: truncate(2000)
    yield "truncate to more", lambda: truncate(3 * MIB)
    yield "size after that", lambda: one.size
    yield "read of a file to a device that is not there", lambda: module.read_file_to_device(number, 0, 10, 0, 4096, 0)
    yield "truncate all", lambda: truncate(0)
    yield "cleanup_file_reader", module.cleanup_file_reader


def mapped_files(module: Any) -> Iterator[Call]:
    path = FOLDER / "file"
    (FOLDER / "empty").write_bytes(b"")

    def mapped(of: Any) -> list[Any]:
        one = module.ModelMMAP(of)
        number = one.get_file_handle()
        same = os.fstat(number).st_ino == os.stat(of).st_ino
        return [ctypes.string_at(one.get(), 10) == path.read_bytes()[:10], whole(one.get()), whole(number), same, one.bounce(),
                ctypes.string_at(one.get(), 10) == path.read_bytes()[:10]]

    yield "a file", lambda: mapped(str(path))
    yield "a path", lambda: mapped(path)
    yield "a path of bytes", lambda: mapped(os.fsencode(path))
    yield "none", lambda: module.ModelMMAP(FOLDER / "nothing")
    yield "a folder", lambda: module.ModelMMAP(FOLDER)
    yield "an empty file", lambda: module.ModelMMAP(FOLDER / "empty")
    yield "no path", lambda: module.ModelMMAP(7.5)


def vbars(module: Any) -> Iterator[Call]:
    def array(*values: int) -> Any:
        return (ctypes.c_uint32 * len(values))(*values)

    try:
        one = module.ModelVBAR(4 * MIB, 0)
    except RuntimeError:  # Without a device: its arithmetic can be looked at all the same.
        one = object.__new__(module.ModelVBAR)
        one.device, one.max_size, one.offset, one.base_addr = 0, 4 * MIB, 0, 1 << 40

    def alloc(size: int) -> list[Any]:
        vbar, address, nbytes = one.alloc(size)
        return [vbar is one, address - one.base_addr, nbytes, one.offset]

    compare = module.vbar_signature_compare
    for name, a, b in (("equal", array(1, 2), array(1, 2)), ("not equal", array(1, 2), array(1, 3)), ("none and one", None, array(1)),
                       ("one and none", array(1), None), ("none and none", None, None),
                       ("of other lengths", array(1, 2), array(1, 2, 0)), ("empty", array(), array())):
        yield f"signatures: {name}", lambda a=a, b=b: compare(a, b)  # type: ignore[misc]
    yield "attributes of a new one", lambda: [one.max_size, one.offset, one.device]
    for size in (100, 1000, 0, 511, 512):
        yield f"alloc of {size}", lambda size=size: alloc(size)  # type: ignore[misc]
    yield "alloc of too much", lambda: alloc(8 * MIB)
    yield "offset after that", lambda: one.offset
    yield "alloc of the rest", lambda: alloc(one.max_size - (one.offset + 511) // 512 * 512)
    yield "alloc of one byte more", lambda: alloc(1)
    yield "unpin of none", lambda: module.vbar_unpin(None)
    yield "vbars_reset_watermark_limits", module.vbars_reset_watermark_limits
    yield "vbars_analyze", module.vbars_analyze


def devices(module: Any) -> Iterator[Call]:
    yield "devices: none", lambda: module.init_devices([])
    yield "devices: three numbers", lambda: module.init_devices([(0, 1, 2)])
    yield "devices: less than nothing kept free", lambda: module.init_devices([(0, -1)])
    yield "devices: none of a name", lambda: module.init_devices([None])
    yield "a device's context that is not there", lambda: module.get_devctx(77)
    yield "get_total_vram_usage", module.get_total_vram_usage
    yield "analyze", module.analyze
    yield "devctxs", lambda: len(module.devctxs)
    yield "lib", lambda: module.lib is not None
    for level in ("critical", "error", "warning", "info", "debug", "verbose", "vverbose", "none"):
        yield f"set_log_{level}", getattr(module, f"set_log_{level}")
    if hasattr(module, "set_simple_vram_headroom"):
        yield "set_simple_vram_headroom", lambda: module.set_simple_vram_headroom(5 * MIB)
        yield "get_simple_vram_headroom", module.get_simple_vram_headroom


def main() -> None:
    import comfy_aimdo.control

    found: dict[str, Any] = {}
    if sys.argv[1] == "theirs":
        found["loaded"] = comfy_aimdo.control.init("cuda")
    else:
        from penstock_comfyui import start, theirs

        sys.modules["comfy.cli_args"] = SimpleNamespace(args=SimpleNamespace(cpu=True))  # type: ignore[assignment]
        theirs.capture()
        start.put_in_place()
        found["loaded"] = comfy_aimdo.control.init("cuda")
    for name, calls in (("host_buffer", host_buffers), ("model_mmap", mapped_files), ("model_vbar", vbars), ("control", devices)):
        module = importlib.import_module(f"comfy_aimdo.{name}")
        found.update({f"{name}: {what}": outcome(call) for what, call in calls(module)})
    found["names"] = [name for name in json.loads(Path(sys.argv[3]).read_text()) if there(name)]
    print(json.dumps(found))


def there(name: str) -> bool:
    """A module, what is in it, or what is in a class in it."""
    module, *rest = name.split(".")
    try:
        one: Any = importlib.import_module(f"comfy_aimdo.{module}")
    except ImportError:
        return False
    for part in rest:
        if not hasattr(one, part):
            return False
        one = getattr(one, part)
    return True


if __name__ == "__main__":
    main()
