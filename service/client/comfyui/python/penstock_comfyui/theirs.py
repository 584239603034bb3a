# SPDX-License-Identifier: Apache-2.0
"""The modules of comfy_aimdo that were there before ours: for devices that the service doesn't serve."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "comfy_aimdo"
NAMES = ("control", "model_vbar", "host_buffer", "vram_buffer", "model_mmap", "torch", "malloc_graph", "storage")
# These import torch, and wait until somebody needs them.
_LATE = ("torch",)

_found: dict[str, ModuleType] = {}
_later: dict[int, Any] = {}


def capture() -> None:
    """Imports them, as ComfyUI would. Raises ImportError when one that must be there is missing."""
    for name in NAMES:
        if name in _LATE or not exists(name):
            continue
        _found[name] = importlib.import_module(f"{PACKAGE}.{name}")


def exists(name: str) -> bool:
    return name in _found or importlib.util.find_spec(f"{PACKAGE}.{name}") is not None


def sources() -> list[Path]:
    """Of all its modules, also such as nobody has told us of. REQUIRES: capture()."""
    folder = Path(list(sys.modules[PACKAGE].__path__)[0])
    found = {path.stem: path for path in sorted(folder.glob("*.py"))}
    return [path for name, path in {**{name: folder / f"{name}.py" for name in NAMES if exists(name)}, **found}.items()
            if not name.startswith("_")]


def module(name: str) -> ModuleType | None:
    """None: the installed package has no such module, or none was captured."""
    if name not in _found and name in _LATE and _found:
        _found[name] = _load_beside(name)
    return _found.get(name)


def call(name: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Their function, where there is one; else None."""
    found = getattr(module(name), function, None)
    return found(*arguments, **options) if found is not None else None


def has(name: str, function: str) -> bool:
    return hasattr(module(name), function)


def works() -> bool:
    """Their native library is loaded."""
    return getattr(_found.get("control"), "lib", None) is not None


def later(devices: dict[int, Any]) -> None:
    """Of those that ComfyUI has, the ones that we took: by number, as it asked for them."""
    _later.clear()
    _later.update(devices)


def init(device: int) -> bool:
    """They have this device as well from now on. False: they can't."""
    if device in _later:
        if not call("control", "init_devices", [_later[device]]):
            return False
        del _later[device]
    return True


def _load_beside(name: str) -> ModuleType:
    """Under a name of its own: ours has the real one."""
    package = sys.modules[PACKAGE]
    path = f"{list(package.__path__)[0]}/{name}.py"
    spec = importlib.util.spec_from_file_location(f"{PACKAGE}._before_penstock_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} can't be loaded")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
