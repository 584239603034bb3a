# SPDX-License-Identifier: Apache-2.0
"""The wheel: installed, put into a ComfyUI, used, and taken out without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from comfyui import FOLDER

MAKE = Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "service/client/comfyui/make_wheel.py"


class Wheel(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        made = subprocess.run([sys.executable, str(MAKE), str(FOLDER), str(self.folder)], capture_output=True, text=True,
                              check=True)
        self.wheel = Path(made.stdout.strip())
        self.site = self.folder / "site"
        self.nodes = self.folder / "custom_nodes"
        self.nodes.mkdir()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "penstock_comfyui_node", *words], capture_output=True, text=True,
                              check=False, cwd=self.folder, env=dict(os.environ, PYTHONPATH=str(self.site)))

    def install(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.site)

    def test_pip_takes_it(self) -> None:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--root-user-action=ignore",
                        "--disable-pip-version-check", "--target", str(self.site), str(self.wheel)], check=True)
        self.assertEqual(2, self.command().returncode)

    def test_it_installs_no_package_of_others(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            top = {name.split("/")[0] for name in archive.namelist()}
        self.assertEqual({"penstock_comfyui_node"}, {name for name in top if not name.endswith(".dist-info")})

    def test_the_same_folder_makes_the_same_wheel(self) -> None:
        before = self.wheel.read_bytes()
        subprocess.run([sys.executable, str(MAKE), str(FOLDER), str(self.folder)], stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(before, self.wheel.read_bytes())

    def test_the_node_is_put_in_and_taken_out_without_a_trace(self) -> None:
        self.install()
        self.assertEqual(0, self.command("install", str(self.nodes)).returncode)
        node = self.nodes / "penstock"
        found = {str(path.relative_to(node)) for path in node.rglob("*") if path.is_file()}
        wanted = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts}
        self.assertEqual(wanted, found)
        loaded = subprocess.run([sys.executable, "-c", "import penstock; print(penstock.__file__)"], check=False, text=True,
                                capture_output=True, env=dict(os.environ, PYTHONPATH=str(node / "python")))
        self.assertEqual(f"{node}/python/penstock/__init__.py\n", loaded.stdout, loaded.stderr)
        self.assertEqual(0, self.command("remove", str(self.nodes)).returncode)
        self.assertEqual([], list(self.nodes.iterdir()))

    def test_a_folder_that_is_not_ours_is_left_alone(self) -> None:
        self.install()
        (self.nodes / "penstock").mkdir()
        (self.nodes / "penstock/mine").write_text("")
        self.assertEqual(1, self.command("install", str(self.nodes)).returncode)
        self.assertEqual(1, self.command("remove", str(self.nodes)).returncode)
        self.assertTrue((self.nodes / "penstock/mine").exists())
        self.assertEqual(2, self.command().returncode)


if __name__ == "__main__":
    unittest.main()
