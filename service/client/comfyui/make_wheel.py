#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an assembled node folder into a wheel, with the standard library alone.

usage: make_wheel.py NODE_FOLDER OUTPUT_FOLDER

The wheel `penstock-comfyui` installs the package penstock_comfyui_node, which has the folder as it stands, and one line that
Python runs at its start (a .pth file): when ComfyUI lists the folders that it loads nodes from, the package's is one of them.
Nothing is written into a ComfyUI, so that `pip uninstall` leaves none of it. It installs no comfy_aimdo, and no penstock that
could hide an installed one.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import sysconfig
import zipfile
from pathlib import Path

NAME = "penstock_comfyui"
PACKAGE = "penstock_comfyui_node"
HOOK = "import penstock_comfyui_node\n"
FINDER = '''# SPDX-License-Identifier: Apache-2.0
"""Makes ComfyUI load the node that lies in this package. Imported whenever this Python starts: imports nothing, costs nothing.

ComfyUI loads nodes from the folders that its module folder_paths lists. When that is imported, ours becomes the last of them.
"""

import sys

FOLDER = __file__.rpartition("/")[0] + "/custom_nodes"


class _Finder:
    """Waits for that module to be run, and goes. Others may ask where it is before that."""

    asked = False

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "folder_paths" or _Finder.asked:
            return None
        from importlib.util import find_spec

        _Finder.asked = True
        try:
            spec = find_spec(name)
        finally:
            _Finder.asked = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader.exec_module = _then_add(spec.loader.exec_module)
        return spec


def _then_add(before):
    def exec_module(module):
        before(module)
        if _Finder in sys.meta_path:
            sys.meta_path.remove(_Finder)
        listed = getattr(module, "folder_names_and_paths", None)
        if isinstance(listed, dict) and "custom_nodes" in listed:  # Else it is somebody else's module.
            folders = listed["custom_nodes"][0]
            if FOLDER not in folders:
                folders.append(FOLDER)

    return exec_module


sys.meta_path.insert(0, _Finder)
'''


def version_of(folder: Path) -> str:
    text = (folder / "python/penstock_comfyui/__init__.py").read_text(encoding="utf-8")
    match = re.search(r'__version__ = "([^"]+)"', text)
    if match is None:
        raise SystemExit(f"{folder} is no assembled node folder")
    return match[1]


def make(folder: Path, output: Path) -> Path:
    version = version_of(folder)
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    tag = f"py3-none-{platform}"
    info = f"{NAME}-{version}.dist-info"
    files = {f"{PACKAGE}.pth": HOOK.encode(), f"{PACKAGE}/__init__.py": FINDER.encode()}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[f"{PACKAGE}/custom_nodes/penstock/{path.relative_to(folder)}"] = path.read_bytes()
    files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: penstock-comfyui\nVersion: {version}\n"
                                 "Summary: ComfyUI's weights in pages of penstockd\nLicense: Apache-2.0\n"
                                 "Requires-Python: >=3.10\n").encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    output.mkdir(parents=True, exist_ok=True)
    wheel = output / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # The same input makes the same wheel.
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(make(Path(sys.argv[1]), Path(sys.argv[2])))
