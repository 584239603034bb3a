# SPDX-License-Identifier: Apache-2.0
"""Our surface beside that of the published wheels: names and signatures. The wheels are read, not imported."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from comfyui import FOLDER

WHEELS = Path(__file__).with_name("requirements-wheels.txt")
OURS = FOLDER / "python/penstock_comfyui/surface"
# Every difference, and why.
DIFFERENCES = {
    "HostBuffer.__del__": "memory goes with the last view, by a finalizer",
    "ModelMMAP.__del__": "as HostBuffer",
    "ModelVBAR.__del__": "as HostBuffer",
    "VRAMBuffer.__del__": "as HostBuffer",
    "MallocGraph.__del__": "there is no native object",
    "CUDAPluggableAllocator.__init__": "theirs is made instead, by __new__",
}
Surface = dict[str, list[str] | None]  # Name -> parameters, those with a default end in "="; None: not a function.


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    plain = len(names) - len(given.defaults)
    return [name if index < plain else f"{name}=" for index, name in enumerate(names)] + [
        f"{one.arg}=" for one in given.kwonlyargs]


def surface(text: str) -> Surface:
    found: Surface = {}

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
                found[prefix + node.name] = None if is_property else parameters(node)
            elif isinstance(node, ast.ClassDef):
                found[prefix + node.name] = None
                add(node.body, f"{node.name}.")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        found[prefix + target.id] = None

    add(ast.parse(text).body, "")
    return {name: value for name, value in found.items()
            if not name.rpartition(".")[2].startswith("_") or name.endswith(("__init__", "__del__"))}


def fits(theirs: list[str], ours: list[str]) -> bool:
    """Every call of theirs is one of ours: same names in the same order, and what we have more has a default."""
    same = all(one.rstrip("=") == other.rstrip("=") and (other.endswith("=") or not one.endswith("="))
               for one, other in zip(theirs, ours))
    return same and len(ours) >= len(theirs) and all(name.endswith("=") for name in ours[len(theirs):])


def compare(wheel: dict[str, Surface], ours: dict[str, Surface]) -> set[str]:
    """Names of the wheel that ours doesn't have, or not so."""
    different = set()
    for module, names in wheel.items():
        for name, theirs in names.items():
            mine = ours.get(module, {}).get(name, "missing")
            both = isinstance(theirs, list) and isinstance(mine, list)
            if mine == "missing" or (both and not fits(theirs or [], list(mine or []))):
                different.add(name if name.rpartition(".")[2] != "missing" else f"{module}.{name}")
    return different


class PublishedWheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.lines = [line for line in WHEELS.read_text().splitlines() if line and not line.startswith("#")]
        running = []
        for number, line in enumerate(cls.lines):
            target = Path(cls.folder.name) / str(number)
            target.mkdir()
            (target / "requirements.txt").write_text(line + "\n")
            running.append(subprocess.Popen(
                [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                 "--require-hashes", "--only-binary=:all:", "-d", str(target), "-r", str(target / "requirements.txt")],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        cls.problems = [(process.communicate()[1], process.returncode) for process in running]
        cls.ours = {path.stem: surface(path.read_text()) for path in OURS.glob("*.py")}

    def wheel(self, number: int) -> dict[str, Surface]:
        text, status = self.problems[number]
        found = list((Path(self.folder.name) / str(number)).glob("*.whl"))
        if status != 0 or not found:
            if "HASH" in text.upper() and "MISMATCH" in text.upper():
                self.fail(text)
            self.skipTest(f"requires the package index for {self.lines[number].split()[0]}: {text.strip()[-200:]}")
        with zipfile.ZipFile(found[0]) as archive:
            return {Path(name).stem: surface(archive.read(name).decode()) for name in archive.namelist()
                    if name.startswith("comfy_aimdo/") and name.endswith(".py") and not Path(name).stem.startswith("_")}

    def test_every_version_s_calls_are_calls_of_ours(self) -> None:
        for number, line in enumerate(self.lines):
            with self.subTest(line.split()[0]):
                different = compare(self.wheel(number), self.ours)
                self.assertEqual(set(), different - set(DIFFERENCES), "not listed")

    def test_every_listed_difference_is_one(self) -> None:
        different: set[str] = set()
        for number in range(len(self.lines)):
            different |= compare(self.wheel(number), self.ours)
        self.assertEqual(set(DIFFERENCES), different)

    def test_nothing_of_ours_is_in_no_version(self) -> None:
        newest = self.wheel(len(self.lines) - 1)
        for module, names in self.ours.items():
            more = {name for name in names if name not in newest.get(module, {})} if module in newest else set()
            self.assertEqual(set(), more - {"lib"}, module)


class Comparing(unittest.TestCase):
    """The comparison finds what it is for."""

    def test_missing_names_and_parameters_are_found(self) -> None:
        theirs = {"a": surface("def one(x, y=1): pass\ndef two(): pass\nclass C:\n    def m(self, k): pass\n")}
        ours = {"a": surface("def one(x, z=1): pass\nclass C:\n    def m(self): pass\n")}
        self.assertEqual({"one", "two", "C.m"}, compare(theirs, ours))

    def test_a_parameter_more_is_fine_when_it_has_a_default(self) -> None:
        self.assertEqual(set(), compare({"a": surface("def f(x): pass")}, {"a": surface("def f(x, y=0): pass")}))
        self.assertEqual({"f"}, compare({"a": surface("def f(x): pass")}, {"a": surface("def f(x, y): pass")}))


if __name__ == "__main__":
    unittest.main()
