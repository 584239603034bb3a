# SPDX-License-Identifier: Apache-2.0
"""A kernel of another release, unpacked from its package, and the modules of it that the tests need."""

from __future__ import annotations

import lzma
import os
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "build/guest-kernels"
# In the order of loading; what they depend on comes before them by itself. One that is built in has no file.
WANTED = ("virtio_pci", "virtio_blk", "crc32c_intel", "loop", "fuse", "xfs", "btrfs", "overlay")
# What their code asks for by name, which is in no list of dependencies.
SOFT = {"btrfs": ("xxhash_generic", "blake2b_generic"), "xfs": ("crc32c_generic",)}


@dataclass(frozen=True)
class Kernel:
    """An image and its modules."""

    release: str
    image: Path
    modules: Path

    def chosen_modules(self) -> list[tuple[str, bytes]]:
        """Names and contents, in the order in which they can be loaded."""
        files = {_name(path): path for path in self.modules.rglob("*.ko*")}
        chosen: dict[str, bytes] = {}

        def add(name: str) -> None:
            if name in chosen or name not in files:
                return
            content = _content(files[name])
            for other in (*_dependencies(content), *SOFT.get(name, ())):
                add(other)
            chosen[name] = content

        for name in WANTED:
            add(name)
        return list(chosen.items())


def find(release: str) -> Kernel | str:
    """Or what is missing."""
    images = sorted((FOLDER / release / "boot").glob("vmlinuz-*"))
    if not images:
        return f"requires the Linux {release} that packaging/guest-kernels fetches"
    name = images[-1].name.removeprefix("vmlinuz-")
    return Kernel(release, images[-1], FOLDER / release / "lib/modules" / name)


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _dependencies(module: bytes) -> list[str]:
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []
