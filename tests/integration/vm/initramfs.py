# SPDX-License-Identifier: Apache-2.0
"""The first file system of a guest: this build's own programs, the shared libraries that they need, a shell."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path


class Initramfs:
    """A cpio archive in the making (the format that the kernel calls newc), not compressed: that would cost more."""

    def __init__(self, build: Path) -> None:
        """`build` is /penstock there, with the programs' own libraries."""
        self._build = build
        self._parts: list[bytes] = []
        self._names: set[str] = set()

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """A file, and the folders above it."""
        self._entry(name.strip("/"), stat.S_IFREG | mode, content)

    def add_folder(self, name: str, mode: int = 0o755) -> None:
        self._entry(name.strip("/"), stat.S_IFDIR | mode, b"")

    def add_program(self, path: Path, name: str) -> None:
        """A program of this machine, with its libraries under the names by which they are looked for."""
        self.add(name, path.read_bytes(), 0o755)
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", listed.stdout):
            place = Path(os.path.normpath(library))
            if place.is_relative_to(self._build):
                place = Path("/penstock") / place.relative_to(self._build)
            self.add(str(place), Path(library).read_bytes(), 0o755)

    def write(self, path: Path) -> None:
        self._entry("TRAILER!!!", 0, b"")
        path.write_bytes(b"".join(self._parts))

    def _entry(self, name: str, mode: int, content: bytes) -> None:
        if name in self._names:
            return
        parent = name.rpartition("/")[0]
        if parent:
            self.add_folder(parent)
        self._names.add(name)
        words = (len(self._names), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % word for word in words) + name.encode() + b"\0"
        self._parts.append(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))


def tool(name: str) -> Path | None:
    """A program that may be where only root looks."""
    found = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return Path(found).resolve() if found else None
