# SPDX-License-Identifier: Apache-2.0
"""Our surface beside that of the published wheels: names and signatures. The wheels are read, not imported."""

from __future__ import annotations

import unittest
import zipfile
from pathlib import Path

from comfyui import FOLDER
from comfyui.wheels import VERSIONS, Wheels
from penstock_comfyui import gate
from penstock_comfyui.fingerprint import Surface, missing, surface

OURS = FOLDER / "python/penstock_comfyui/surface"
# Every difference, and why.
DIFFERENCES = {
    "HostBuffer.__del__": "memory goes with the last view, by a finalizer",
    "ModelMMAP.__del__": "as HostBuffer",
    "ModelVBAR.__del__": "as HostBuffer",
    "VRAMBuffer.__del__": "as HostBuffer",
    "MallocGraph.__del__": "there is no native object",
}


def compare(wheel: dict[str, Surface], ours: dict[str, Surface]) -> set[str]:
    """Names of the wheel that ours doesn't have, or not so."""
    return {name for module, names in wheel.items() for name in missing(names, ours.get(module, {}))}


class PublishedWheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.wheels = Wheels(cls)
        cls.ours = {path.stem: surface(path.read_text()) for path in OURS.glob("*.py")}

    def wheel(self, number: int) -> dict[str, Surface]:
        with zipfile.ZipFile(self.wheels.path(self, number)) as archive:
            return {Path(name).stem: surface(archive.read(name).decode()) for name in archive.namelist()
                    if name.startswith("comfy_aimdo/") and name.endswith(".py") and not Path(name).stem.startswith("_")}

    def test_the_gate_knows_the_versions_that_are_compared(self) -> None:
        self.assertEqual(VERSIONS, list(gate.AIMDO))

    def test_every_version_s_calls_are_calls_of_ours(self) -> None:
        for number, version in enumerate(VERSIONS):
            with self.subTest(version):
                different = compare(self.wheel(number), self.ours)
                self.assertEqual(set(), different - set(DIFFERENCES), "not listed")

    def test_every_listed_difference_is_one(self) -> None:
        different: set[str] = set()
        for number in range(len(VERSIONS)):
            different |= compare(self.wheel(number), self.ours)
        self.assertEqual(set(DIFFERENCES), different)

    def test_nothing_of_ours_is_in_no_version(self) -> None:
        newest = self.wheel(len(VERSIONS) - 1)
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
