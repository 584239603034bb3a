# SPDX-License-Identifier: Apache-2.0
"""The wheel: installed into the environment of a ComfyUI, found by it, and taken out without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from comfyui import FOLDER, stand_in

MAKE = Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "service/client/comfyui/make_wheel.py"
# As far as the wheel is concerned with it, what ComfyUI does: comfy_aimdo.control, then the nodes' first scripts.
FOLDER_PATHS = """
import os
base_path = os.path.dirname(os.path.realpath(__file__))
folder_names_and_paths = {"custom_nodes": ([os.path.join(base_path, "custom_nodes")], set())}
"""
MAIN = """
import logging, os, runpy, sys
logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
import folder_paths
import comfy_aimdo.control
for folder in folder_paths.folder_names_and_paths["custom_nodes"][0]:
    for node in sorted(os.listdir(folder)):
        print("node", node)
        runpy.run_path(os.path.join(folder, node, "prestartup_script.py"))
import comfy_aimdo.model_vbar
print("vbar", comfy_aimdo.model_vbar.__name__)
"""


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class WithWheel(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        made = subprocess.run([sys.executable, str(MAKE), str(FOLDER), str(self.folder)], capture_output=True, text=True,
                              check=True)
        self.wheel = Path(made.stdout.strip())


class Wheel(WithWheel):
    def test_it_installs_no_package_of_others(self) -> None:
        with zipfile.ZipFile(self.wheel) as archive:
            top = {name.split("/")[0] for name in archive.namelist()}
        self.assertEqual({"penstock_comfyui_node", "penstock_comfyui_node.pth"}, {name for name in top if not name.endswith(".dist-info")})

    def test_the_same_folder_makes_the_same_wheel(self) -> None:
        before = self.wheel.read_bytes()
        subprocess.run([sys.executable, str(MAKE), str(FOLDER), str(self.folder)], stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(before, self.wheel.read_bytes())


class Installed(WithWheel):
    def setUp(self) -> None:
        super().setUp()
        self.venv = self.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True)
        self.python = self.venv / "bin/python"
        (next(self.venv.glob("lib/*/site-packages")) / "other.py").write_text("")  # pip drops a folder that is empty.
        self.comfy = self.folder / "comfy"
        stand_in.write_comfyui(self.comfy)
        (self.comfy / "custom_nodes").mkdir()
        (self.comfy / "folder_paths.py").write_text(FOLDER_PATHS)
        (self.comfy / "main.py").write_text(MAIN + "\n# ".join(["", *stand_in.CONTRACT["main.py"]]) + "\n")
        stand_in.write_aimdo(self.folder / "site")

    def pip(self, *words: str) -> None:
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python), *words],
                       check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, PIP_ROOT_USER_ACTION="ignore"))

    def run_python(self, *words: str) -> list[str]:
        """With files of compiled modules, as users have them."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment.update(PYTHONPATH=str(self.folder / "site"), PENSTOCK_SOCKET="/nonexistent")
        done = subprocess.run([str(self.python), *words], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(("", 0), (done.stderr, done.returncode))
        return done.stdout.splitlines()

    def test_a_comfyui_finds_it_and_nothing_of_it_is_left(self) -> None:
        main = str(self.comfy / "main.py")
        self.assertEqual(["vbar comfy_aimdo.model_vbar"], self.run_python(main))
        before, comfy = tree(self.venv), tree(self.comfy)
        self.pip("install", "-q", "--no-index", "--no-deps", str(self.wheel))
        said = self.run_python(main)
        self.assertEqual(("node penstock", "vbar penstock_comfyui.surface.model_vbar"), (said[0], said[-1]))
        self.assertIn("penstock: ready, and waits for the service, ComfyUI 0.33.0, comfy-aimdo 0.4.13", said)
        self.assertTrue(any("__pycache__" in one for one in tree(self.venv) - before), "as users have it")
        self.pip("uninstall", "-q", "-y", "penstock-comfyui")
        self.assertEqual((set(), set()), (tree(self.venv) ^ before, tree(self.comfy) ^ comfy))
        self.assertEqual(["vbar comfy_aimdo.model_vbar"], self.run_python(main))

    def test_dropped_and_installed_it_is_used_once(self) -> None:
        self.pip("install", "-q", "--no-index", "--no-deps", str(self.wheel))
        (self.comfy / "custom_nodes/penstock").symlink_to(FOLDER)
        said = self.run_python(str(self.comfy / "main.py"))
        self.assertEqual(["node penstock"] * 2, [line for line in said if line.startswith("node")])
        self.assertEqual(1, sum("it is there twice" in line for line in said), said)
        self.assertEqual("vbar penstock_comfyui.surface.model_vbar", said[-1])

    def test_the_folder_is_as_it_was_built(self) -> None:
        self.pip("install", "-q", "--no-index", "--no-deps", "--no-compile", str(self.wheel))
        (node,) = self.venv.glob("lib/*/site-packages/penstock_comfyui_node/custom_nodes/penstock")
        self.assertEqual({one for one in tree(FOLDER) if "__pycache__" not in one}, tree(node))
        loaded = self.run_python("-c", f"import sys; sys.path.append({str(node / 'python')!r}); import penstock; print(penstock.__file__)")
        self.assertEqual([f"{node}/python/penstock/__init__.py"], loaded)

    def test_whoever_looks_for_that_module_before_it_is_imported_hides_nothing(self) -> None:
        self.pip("install", "-q", "--no-index", "--no-deps", str(self.wheel))
        said = self.run_python("-c", f"import sys; sys.path.insert(0, {str(self.comfy)!r})\nfrom importlib.util import find_spec\n"
                               "find_spec('folder_paths'), find_spec('folder_paths')\nimport folder_paths\n"
                               "print(len(folder_paths.folder_names_and_paths['custom_nodes'][0]), len(sys.meta_path))\n"
                               "print('penstock_comfyui_node' in str(sys.meta_path))")
        self.assertEqual(("2", "False"), (said[0].split()[0], said[1]))

    def test_other_programs_of_the_environment_are_as_ever(self) -> None:
        """Also one that has a module of that name."""
        self.pip("install", "-q", "--no-index", "--no-deps", str(self.wheel))
        (self.folder / "site/folder_paths.py").write_text("here = 1\n")
        said = self.run_python("-c", "import sys; before = set(sys.modules); import folder_paths; print(vars(folder_paths).get('here'),"
                               " 'folder_names_and_paths' in vars(folder_paths), 'penstock' in sys.modules)")
        self.assertEqual(["1 False False"], said)
        said = self.run_python("-c", "import sys; print(sys.modules['penstock_comfyui_node'].__file__ is not None)\n"
                               "try:\n    import folder_path\nexcept ModuleNotFoundError: print('none')")
        self.assertEqual(["True", "none"], said)


if __name__ == "__main__":
    unittest.main()
