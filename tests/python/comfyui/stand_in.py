# SPDX-License-Identifier: Apache-2.0
"""Folders that look like a ComfyUI and an installed comfy_aimdo, as far as the gate looks. Nothing of either is in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from comfyui import FOLDER
from penstock_comfyui.contract import CONTRACT

_CONTROL = """
lib = None
devctxs = []
_calls = []
def init(implementation=None, simple_vram_headroom=None): return False
def init_devices(device_ids):
    _calls.append(list(device_ids))
    return False
def get_devctx(device_id): return None
def set_log_info(): pass
def analyze(): pass
"""
_VBAR_CALLS = (("vbar_fault", "alloc"), ("vbar_unpin", "alloc"), ("vbar_signature_compare", "a, b"),
               ("vbars_analyze", "device=None"), ("vbars_reset_watermark_limits", ""))
_MODULES = {
    "control": _CONTROL,
    "model_vbar": "from . import control\nlib = control.lib\nclass ModelVBAR:\n    def __init__(self, size, device): pass\n"
                  + "".join(f"def {name}({parameters}): pass\n" for name, parameters in _VBAR_CALLS),
    "host_buffer": "class HostBuffer:\n    def __init__(self, size, prewarm=0, max_grow_size=0, mark_cold=True): pass\n"
                   "def read_file_to_device(file_obj, file_offset, size, stream, device_ptr, device, mark_cold=True): pass\n"
                   "def cleanup_file_reader(): pass\n",
    "vram_buffer": "class VRAMBuffer:\n    def __init__(self, max_size, device): pass\n",
    "model_mmap": "class ModelMMAP:\n    def __init__(self, filepath): pass\n",
    "torch": "import torch\n",
}


# One whose native library is loaded, and that answers.
_WORKING = {
    "control": "_calls = []\nlib = object()\ndevctxs = []\n" + "".join(
        f"def {name}({parameter}):\n    _calls.append({name!r})\n    return {answer}\n" for name, parameter, answer in (
            ("get_devctx", "device_id", "'ctx'"), ("set_log_info", "", "None"), ("analyze", "", "None"),
            ("get_total_vram_usage", "", "5"), ("set_simple_vram_headroom", "headroom", "None")))
    + "def init(implementation=None, simple_vram_headroom=None): return True\n"
      "def init_devices(device_ids):\n    _calls.append(list(device_ids))\n    return True\n",
    "model_vbar": "class ModelVBAR:\n    def __init__(self, size, device): pass\n"
                  "    def fault(self, alloc, size): return b'sig'\n    def unpin(self, alloc, size): self.unpinned = True\n"
                  "def vbar_fault(alloc): pass\ndef vbar_unpin(alloc): pass\ndef vbar_signature_compare(a, b): pass\n"
                  "def vbars_analyze(device=None): return 77\ndef vbars_reset_watermark_limits(): pass\n",
    "host_buffer": "def read_file_to_device(file_obj, file_offset, size, stream, device_ptr, device, mark_cold=True): return 'theirs'\n"
                   "class HostBuffer:\n    def __init__(self, size, prewarm=0, max_grow_size=0, mark_cold=True): pass\n",
}


def write_aimdo(folder: Path, version: str = "0.4.13", without: str = "", working: bool = False, **more: str) -> None:
    """`without`: text that is taken out of its modules. `more`: what is added to them, by their names."""
    package = folder / "comfy_aimdo"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for name, text in {**_MODULES, **(_WORKING if working else {})}.items():
        (package / f"{name}.py").write_text((text.replace(without, "gone") if without else text) + more.pop(name, ""))
    for name, text in more.items():
        (package / f"{name}.py").write_text(text)
    info = folder / f"comfy_aimdo-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: comfy-aimdo\nVersion: {version}\n")


def write_comfyui(folder: Path, version: str = "0.33.0", without: str = "") -> None:
    for name, wanteds in CONTRACT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(wanted for wanted in wanteds if wanted != without))
    (folder / "comfyui_version.py").write_text(f'__version__ = "{version}"\n')


def run(script: str, *paths: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that finds these folders, and starts as ComfyUI does: comfy_aimdo.control first, then our script."""
    start = ("import logging, runpy, sys\nlogging.basicConfig(format='%(message)s', level=logging.INFO, stream=sys.stdout)\n"
             "import comfy_aimdo.control\n"
             f"runpy.run_path({str(FOLDER / 'prestartup_script.py')!r})\n")
    return subprocess.run([sys.executable, "-c", start + script], capture_output=True, text=True, check=False,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, paths)), **environment))
