# SPDX-License-Identifier: Apache-2.0
"""Is this a ComfyUI, and a comfy_aimdo, that we know?

Known is what has been tested: numbers first. Then the names that we rely on, and whether there are others that we would
have to have. ComfyUI's are looked for in its sources: importing them would import torch, which must not happen before ComfyUI
does it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from penstock_comfyui import fingerprint, theirs
from penstock_comfyui.contract import CONTRACT

COMFYUI = ("0.33.0",)
# The published ones, each of which our surface is compared with.
AIMDO = ("0.4.10", "0.4.11", "0.4.12", "0.4.13", "0.4.14", "0.4.15",
         "0.5.0", "0.5.1", "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.6", "0.6.0")
ANY_VERSION = "PENSTOCK_COMFYUI_ANY_VERSION"
# ComfyUI asks for it where no version has it, and goes on without.
_ABSENT = {"control.set_log_detail"}
# And in the installed comfy_aimdo: module, name, parameters that must be there.
SURFACE: dict[str, dict[str, tuple[str, ...]]] = {
    "control": {"init": ("simple_vram_headroom",), "init_devices": (), "analyze": ()},
    "model_vbar": {"ModelVBAR": ("size", "device"), "vbar_fault": (), "vbar_unpin": (), "vbar_signature_compare": (),
                   "vbars_analyze": (), "vbars_reset_watermark_limits": ()},
    "host_buffer": {"HostBuffer": ("size", "prewarm", "max_grow_size"), "read_file_to_device": ("mark_cold",)},
    "vram_buffer": {"VRAMBuffer": ("max_size", "device")},
    "model_mmap": {"ModelMMAP": ("filepath",)},
}


class Refused(Exception):
    """One line: the version found, and what is missing."""


def check_comfyui(root: Path) -> str:
    """Its version. REQUIRES: `root` is its folder."""
    found = _comfyui_version(root)
    check_number("ComfyUI", found, COMFYUI)
    missing = [f"{name}: {wanted}" for name, wanteds in CONTRACT.items()
               for wanted in wanteds if wanted not in _text(root / name)]
    if missing:
        raise Refused(f"ComfyUI {found} lacks what we rely on: {'; '.join(missing)}")
    strange = sorted(_called(root) - _own_names() - _ABSENT)
    if strange:
        raise Refused(f"ComfyUI {found} calls what we don't have: {', '.join(strange)}")
    return found


def check_aimdo() -> str:
    """Its version. REQUIRES: theirs.capture()."""
    found = aimdo_version()
    check_number("comfy-aimdo", found, AIMDO)
    missing = []
    for module, names in SURFACE.items():
        for name, parameters in names.items():
            one = getattr(theirs.module(module), name, None)
            if one is None:
                missing.append(f"{module}.{name}")
                continue
            there = inspect.signature(one).parameters
            missing += [f"{module}.{name}({parameter})" for parameter in parameters if parameter not in there]
    if missing:
        raise Refused(f"comfy-aimdo {found} lacks what we rely on: {', '.join(missing)}")
    strange = sorted(_beyond_ours())
    if strange:
        raise Refused(f"comfy-aimdo {found} has what we don't: {', '.join(strange)}")
    return found


def own_surface(module: str) -> fingerprint.Surface:
    return fingerprint.surface(_text(Path(__file__).parent / f"surface/{module}.py"))


def _own_names() -> set[str]:
    return {f"{module}.{name}" for module in theirs.NAMES for name in own_surface(module)}


def _called(root: Path) -> set[str]:
    """What ComfyUI asks of comfy_aimdo's modules."""
    sources = [*root.glob("*.py"), *(root / "comfy").glob("*.py")]
    return {f"{module}.{name}" for path in sources
            for module, name in re.findall(r"\bcomfy_aimdo\.(\w+)\.(\w+)", _text(path)) if not name.startswith("__")}


def _beyond_ours() -> Iterator[str]:
    """Names and parameters of the installed modules; a module whose source can't be read is one of them."""
    for path in theirs.sources():
        if path.stem not in theirs.NAMES:
            yield path.stem
            continue
        try:
            found = fingerprint.surface(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            yield f"{path.stem}, whose source can't be read"
            continue
        # An object's end is no call.
        yield from (f"{path.stem}.{name}" for name in fingerprint.missing(found, own_surface(path.stem))
                    if not name.endswith(".__del__"))


def aimdo_version() -> str:
    try:
        return importlib.metadata.version("comfy-aimdo")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def comfyui_root() -> Path:
    """The folder of the ComfyUI that runs."""
    spec = importlib.util.find_spec("comfyui_version")
    if spec is None or spec.origin is None:
        raise Refused("ComfyUI unknown has no comfyui_version.py")
    return Path(spec.origin).parent


def _comfyui_version(root: Path) -> str:
    match = re.search(r'__version__\s*=\s*"([^"]+)"', _text(root / "comfyui_version.py"))
    return match[1] if match else "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def check_number(what: str, found: str, known: Collection[str]) -> None:
    """Raises Refused for a version that we don't know, unless the user wants to try it."""
    if found not in known and os.environ.get(ANY_VERSION) != "1":
        raise Refused(f"{what} {found} is not known ({', '.join(known)} {'are' if len(known) > 1 else 'is'}; "
                      f"{ANY_VERSION}=1 tries it all the same)")
