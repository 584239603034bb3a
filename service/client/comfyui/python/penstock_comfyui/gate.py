# SPDX-License-Identifier: Apache-2.0
"""Is this a ComfyUI, and a comfy_aimdo, that we know?

Numbers first, then the names that we rely on. ComfyUI's are looked for in its sources: importing them would import torch,
which must not happen before ComfyUI does it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import os
import re
from pathlib import Path

from penstock_comfyui import theirs

COMFYUI = ((0, 33), (0, 34))  # From, and before.
AIMDO = ((0, 4, 10), (0, 7))
ANY_VERSION = "PENSTOCK_COMFYUI_ANY_VERSION"

# What we rely on in ComfyUI: file, and what must stand in it.
CONTRACT: dict[str, tuple[str, ...]] = {
    "main.py": ("comfy_aimdo.control.init_devices(", "execute_prestartup_script()"),
    "comfy/model_patcher.py": ("comfy_aimdo.model_vbar.ModelVBAR(", "vbar.prioritize()", "vbar.alloc(",
                               "vbar.free_memory(", "vbar.loaded_size()", "dynamic_pins", "class ModelPatcherDynamic(",
                               "_v_signature", "_lowvram_function", "_comfy_model_dtype", "def _vbar_get("),
    "comfy/model_management.py": ("def reset_cast_buffers(", "def load_models_gpu(models, memory_required=0,", "def synchronize(",
                                  "EXTRA_RESERVED_VRAM", "class LoadedModel", "def cleanup_models(", "current_loaded_models",
                                  "def get_all_torch_devices(", "def unet_offload_device(", "STREAM_AIMDO_CAST_BUFFERS",
                                  "def minimum_inference_memory("),
    "comfy/model_base.py": ("class BaseModel(", "def load_model_weights(self, sd, unet_prefix=\"\", assign=False)",
                            "diffusion_model"),
    "execution.py": ("class PromptExecutor", "async def execute_async(", "async def execute(", "reset_cast_buffers()"),
    "comfy/ops.py": ("comfy_aimdo.model_vbar.vbar_fault(", "comfy_aimdo.model_vbar.vbar_signature_compare(",
                     "comfy_aimdo.model_vbar.vbar_unpin(", "comfy_aimdo.torch.aimdo_to_tensor(", "_v_weight", "_v_bias"),
    "comfy/pinned_memory.py": ("hostbuf.extend(", "hostbuf.truncate(", "comfy_aimdo.torch.hostbuf_to_tensor("),
    "comfy/memory_management.py": ("comfy_aimdo.host_buffer.read_file_to_device(", "hostbuf.read_file_slice(",
                                   "aimdo_enabled"),
    "comfy/utils.py": ("def load_torch_file(ckpt, safe_load=False, device=None, return_metadata=False)",
                       "comfy_aimdo.model_mmap.ModelMMAP(", "_comfy_tensor_file_slice", "DISABLE_MMAP"),
}
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
    return found


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


def check_number(what: str, found: str, known: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Raises Refused for a version that we don't know, unless the user wants to try it."""
    if os.environ.get(ANY_VERSION) == "1":
        return
    number = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    first, end = (".".join(map(str, one)) for one in known)
    if not number or not known[0] <= number < known[1]:
        raise Refused(f"{what} {found} is not known (from {first}, before {end}; {ANY_VERSION}=1 tries it all the same)")
