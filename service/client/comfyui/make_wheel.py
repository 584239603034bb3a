#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an assembled node folder into a wheel, with the standard library alone.

usage: make_wheel.py NODE_FOLDER OUTPUT_FOLDER

The wheel `penstock-comfyui` installs the package penstock_comfyui_node: the folder as it stands, and a command that puts it
into a ComfyUI, or takes it out. It installs no comfy_aimdo, and no penstock that could hide an installed one.
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
MAIN = '''# SPDX-License-Identifier: Apache-2.0
"""usage: python -m penstock_comfyui_node install|remove CUSTOM_NODES

install: copies the node to CUSTOM_NODES/penstock, in the place of one that is there. remove: takes it away, without a trace.
"""

import shutil
import sys
from pathlib import Path


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("install", "remove"):
        print(__doc__, file=sys.stderr)
        return 2
    nodes = Path(sys.argv[2])
    if not nodes.is_dir():
        print(f"{nodes} is no folder", file=sys.stderr)
        return 1
    target = nodes / "penstock"
    if target.exists() and not (target / "prestartup_script.py").exists():
        print(f"{target} is not ours", file=sys.stderr)
        return 1
    shutil.rmtree(target, ignore_errors=True)
    if sys.argv[1] == "install":
        shutil.copytree(Path(__file__).parent / "node", target, ignore=shutil.ignore_patterns("__pycache__"))
    return 0


sys.exit(main())
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
    files = {f"{PACKAGE}/__init__.py": b"# SPDX-License-Identifier: Apache-2.0\n", f"{PACKAGE}/__main__.py": MAIN.encode()}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[f"{PACKAGE}/node/{path.relative_to(folder)}"] = path.read_bytes()
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
