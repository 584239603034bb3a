# SPDX-License-Identifier: Apache-2.0
"""Puts our modules in the place of comfy_aimdo's, or says in one line why not."""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from types import ModuleType

from penstock_comfyui import gate, theirs
from penstock_comfyui.link import link, log, say_once

_OURS = "penstock_comfyui.surface"


def start(root: Path | None = None) -> bool:
    """Called before ComfyUI imports torch. False: nothing was changed."""
    if getattr(sys.modules.get(f"{theirs.PACKAGE}.control"), "__name__", "") == f"{_OURS}.control":
        say_once("it is there twice, as a folder and installed; the first one is in use")
        return True
    try:
        comfyui = gate.check_comfyui(root or gate.comfyui_root())
        theirs.capture()
        aimdo = gate.check_aimdo()
        put_in_place()
    except gate.Refused as refusal:
        say_once(f"not used: {refusal}")
        return False
    except Exception as error:  # noqa: BLE001 - Whatever it is, ComfyUI must start.
        say_once(f"not used: {type(error).__name__}: {error}")
        return False
    state = "in use" if link.service() is not None else "ready, and waits for the service"
    log.info("penstock: %s, ComfyUI %s, comfy-aimdo %s", state, comfyui, aimdo)
    return True


def put_in_place() -> None:
    """Modules and attributes of the package: ComfyUI keeps the package itself. All of them, or none."""
    package = importlib.import_module(theirs.PACKAGE)
    ready: dict[str, ModuleType | _Late] = {}
    for name in theirs.NAMES:
        if not theirs.exists(name):
            continue
        if name == "torch":
            ready[name] = _Late(f"{theirs.PACKAGE}.torch")
            continue
        ours = importlib.import_module(f"{_OURS}.{name}")
        _hide_what_they_lack(name, ours, theirs.module(name))
        ready[name] = ours
    for name, module in ready.items():
        sys.modules[f"{theirs.PACKAGE}.{name}"] = module
        setattr(package, name, module)


class _Late(ModuleType):
    """Becomes surface.torch when it is first asked for something: torch may not be imported yet."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(importlib.import_module(f"{_OURS}.torch"), name)
        setattr(self, name, found)
        return found


def _hide_what_they_lack(name: str, ours: ModuleType, other: ModuleType | None) -> None:
    """ComfyUI and its nodes ask by hasattr what a version can do."""
    if other is None:
        return
    for one in gate.own_surface(name):
        holder, _, attribute = one.rpartition(".")
        mine, others = (getattr(side, holder, None) if holder else side for side in (ours, other))
        # What an object has from its construction on is no name of its class.
        if mine is not None and attribute != "__init__" and attribute in vars(mine) and not hasattr(others, attribute):
            delattr(mine, attribute)


__all__ = ["put_in_place", "start"]
logging.getLogger("penstock").setLevel(logging.INFO)
