# SPDX-License-Identifier: Apache-2.0
"""The files of the project and what kind each is."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

IGNORED_FOLDERS = {"build", "shared", "__pycache__", "node_modules"}
CPP = {".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".hip"}
OTHER_KINDS = {".py": "python", ".cmake": "cmake", ".pml": "spin"}


@dataclass(frozen=True)
class Problem:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class SourceFile:
    """`path` is relative to the root of the tree, with slashes; `kind` is cpp, python, bash, cmake or spin."""

    path: str
    kind: str
    text: str
    lines: list[str] = field(repr=False)

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def is_checker(self) -> bool:
        """This folder must name what it forbids."""
        return self.path.startswith("tests/tidy/")


def source_file(path: str, text: str) -> SourceFile | None:
    kind = _kind(path, text)
    return SourceFile(path, kind, text, text.splitlines()) if kind else None


def _kind(path: str, text: str) -> str:
    suffix = Path(path).suffix
    if suffix in CPP:
        return "cpp"
    if suffix in OTHER_KINDS:
        return OTHER_KINDS[suffix]
    if Path(path).name == "CMakeLists.txt":
        return "cmake"
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        if "python" in first:
            return "python"
        if first.rstrip().endswith("sh"):
            return "bash"
    return "bash" if suffix in {".sh", ".bash"} else ""


def read_tree(root: Path) -> Iterator[SourceFile]:
    for folder, subfolders, names in os.walk(root):
        at_root = Path(folder) == root
        subfolders[:] = sorted(name for name in subfolders
                               if name not in IGNORED_FOLDERS and not (at_root and name.startswith(".")
                                                                       and name != ".ci"))
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_symlink() or path.stat().st_size > 2**20:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            found = source_file(path.relative_to(root).as_posix(), text)
            if found:
                yield found
