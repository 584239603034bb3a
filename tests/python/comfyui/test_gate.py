# SPDX-License-Identifier: Apache-2.0
"""Modules are put in place only where everything is known; else one line is said, and nothing is changed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from comfyui import FOLDER, stand_in
from comfyui.seam import WithSeam
from penstock_comfyui import gate
from penstock_comfyui.contract import CONTRACT

SHOW = """
import comfy_aimdo.model_vbar, comfy_aimdo.control
print("vbar", comfy_aimdo.model_vbar.__name__, sys.modules["comfy_aimdo.model_vbar"].__name__)
print("torch loaded", "torch" in sys.modules)
"""
OURS = "vbar penstock_comfyui.surface.model_vbar penstock_comfyui.surface.model_vbar\ntorch loaded False\n"
THEIRS = "vbar comfy_aimdo.model_vbar comfy_aimdo.model_vbar\ntorch loaded False\n"


# Names under which our code has objects of ComfyUI's.
OBJECTS = {"management", "_management", "execution", "executor", "utils", "patchers", "patcher", "model", "module", "loaded", "entry",
          "server", "caches", "arguments", "unit", "part"}
# What any torch module or tensor has, and our own stand-in.
OF_OTHERS = {"modules", "named_parameters", "named_buffers", "parameters", "buffers", "weight", "bias", "others",
             "_parameters", "_buffers", "register_load_state_dict_pre_hook"}


def touched_in(source: str) -> set[str]:
    """Attributes of ComfyUI's objects, also by getattr and its like."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            holder, name = node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr", "hasattr"):
            holder, constant = node.args[:2]
            name = constant.value if isinstance(constant, ast.Constant) else ""
        else:
            continue
        owner = holder.attr if isinstance(holder, ast.Attribute) else holder.id if isinstance(holder, ast.Name) else ""
        if owner in OBJECTS and name not in OF_OTHERS and not name.startswith(("_penstock", "__")):
            found.add(name)
    return found - {""}


class WithFolders(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, script: str = SHOW, aimdo: dict[str, str] | None = None, comfyui: dict[str, str] | None = None,
              **environment: str) -> subprocess.CompletedProcess[str]:
        stand_in.write_aimdo(self.folder / "site", **(aimdo or {}))
        stand_in.write_comfyui(self.folder / "comfy", **(comfyui or {}))
        options = {"PENSTOCK_SOCKET": "/nonexistent", **environment}
        done = stand_in.run(script, self.folder / "site", self.folder / "comfy", **options)
        self.assertEqual(("", 0), (done.stderr, done.returncode))
        return done

    def refused(self, done: subprocess.CompletedProcess[str], *words: str) -> None:
        lines = done.stdout.splitlines()
        self.assertEqual(THEIRS, "\n".join(lines[1:]) + "\n", "one line, and nothing changed")
        self.assertTrue(lines[0].startswith("penstock: not used: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])


class Gate(WithFolders):
    def test_known_versions_are_used_and_torch_is_not_touched(self) -> None:
        done = self.start()
        self.assertTrue(done.stdout.endswith(OURS), done.stdout)
        self.assertIn("waits for the service, ComfyUI 0.33.0, comfy-aimdo 0.4.13", done.stdout)

    def test_an_unknown_comfyui_is_refused(self) -> None:
        for version in ("0.99.1", "0.33.1", "0.33.0-dev", "0.32.9"):
            with self.subTest(version), self.assertRaises(gate.Refused) as refused:
                stand_in.write_comfyui(self.folder / version, version)
                gate.check_comfyui(self.folder / version)
            self.assertIn(f"ComfyUI {version} is not known (0.33.0 is", str(refused.exception))
        self.refused(self.start(comfyui={"version": "0.99.1"}), "ComfyUI 0.99.1")

    def test_an_unknown_comfy_aimdo_is_refused(self) -> None:
        self.refused(self.start(aimdo={"version": "0.7.0"}), "comfy-aimdo 0.7.0")

    def test_the_next_comfy_aimdo_is_refused_until_it_was_compared(self) -> None:
        self.refused(self.start(aimdo={"version": "0.6.1"}), "comfy-aimdo 0.6.1 is not known", gate.AIMDO[-1])

    def test_a_comfy_aimdo_that_has_more_than_we_is_refused_whatever_its_number(self) -> None:
        for more, name in (({"model_vbar": "def vbar_new(alloc): pass\n"}, "model_vbar.vbar_new"),
                           ({"vram_buffer": "def more(): pass\nclass More(VRAMBuffer):\n    pass\n"}, "vram_buffer.More"),
                           ({"host_buffer": "def cleanup_file_reader(now): pass\n"}, "host_buffer.cleanup_file_reader"),
                           ({"torch": "def aimdo_to_tensor(alloc, device, dtype): pass\n"}, "torch.aimdo_to_tensor"),
                           ({"sections": "def one(): pass\n"}, "sections")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.folder = Path(folder)
                self.refused(self.start(aimdo=more, PENSTOCK_COMFYUI_ANY_VERSION="1"), "comfy-aimdo 0.4.13 has what we don't", name)

    def test_what_is_private_in_comfy_aimdo_is_no_matter_of_ours(self) -> None:
        done = self.start(aimdo={"model_vbar": "def _help(): pass\nclass _Helper:\n    def more(self): pass\n", "_version": "x = 1\n"})
        self.assertTrue(done.stdout.endswith(OURS), done.stdout)

    def test_a_comfyui_that_calls_more_than_we_have_is_refused_whatever_its_number(self) -> None:
        stand_in.write_comfyui(self.folder / "comfy")
        (self.folder / "comfy/comfy/new.py").write_text("x = comfy_aimdo.model_vbar.vbar_new(alloc)\n"
                                                        "comfy_aimdo.control.set_log_detail()\n")
        with self.assertRaises(gate.Refused) as refused:
            gate.check_comfyui(self.folder / "comfy")
        self.assertIn("calls what we don't have: model_vbar.vbar_new", str(refused.exception))
        self.assertNotIn("set_log_detail", str(refused.exception))

    @unittest.skipUnless("PENSTOCK_COMFYUI_DIR" in os.environ, "requires PENSTOCK_COMFYUI_DIR, a checkout of ComfyUI")
    def test_the_real_comfyui_is_known(self) -> None:
        self.assertIn(gate.check_comfyui(Path(os.environ["PENSTOCK_COMFYUI_DIR"])), gate.COMFYUI)

    def test_an_older_comfy_aimdo_is_refused(self) -> None:
        self.refused(self.start(aimdo={"version": "0.4.9"}), "comfy-aimdo 0.4.9")

    def test_numbers_can_be_waived(self) -> None:
        done = self.start(comfyui={"version": "0.99.1"}, PENSTOCK_COMFYUI_ANY_VERSION="1")
        self.assertTrue(done.stdout.endswith(OURS), done.stdout)

    def test_a_missing_contract_point_is_named(self) -> None:
        done = self.start(comfyui={"without": "vbar.free_memory("}, PENSTOCK_COMFYUI_ANY_VERSION="1")
        self.refused(done, "ComfyUI 0.33.0", "comfy/model_patcher.py: vbar.free_memory(")

    def test_every_contract_point_is_looked_for(self) -> None:
        root = self.folder / "comfy"
        stand_in.write_comfyui(root)
        for name, wanteds in CONTRACT.items():
            for wanted in wanteds:
                text = (root / name).read_text()
                (root / name).write_text("\n".join(one for one in wanteds if one != wanted and wanted not in one))
                with self.subTest(wanted), self.assertRaises(gate.Refused) as refused:
                    gate.check_comfyui(root)
                self.assertIn(f"{name}: {wanted}", str(refused.exception))
                (root / name).write_text(text)

    def test_what_we_touch_of_comfyui_is_in_the_contract(self) -> None:
        listed = set(re.findall(r"\w+", " ".join(one for wanteds in CONTRACT.values() for one in wanteds)))
        touched: dict[str, str] = {}
        for path in (FOLDER / "python/penstock_comfyui").glob("*.py"):
            touched.update({name: path.name for name in touched_in(path.read_text())})
        # Some that must have been found, however our code is written.
        self.assertLessEqual({"_v_block", "get_dynamic_vram__units", "EXTRA_RESERVED_VRAM", "execute_async"}, set(touched))
        self.assertEqual({}, {name: path for name, path in touched.items() if name not in listed})

    def test_what_is_touched_is_found(self) -> None:
        self.assertEqual({"one", "two", "three", "four"}, touched_in(
            "management.one()\nself._management.two = 3\nif hasattr(module, 'three'): pass\nx = getattr(one.model, 'four', 0)\n"
            "model.modules()\nother.five\ngetattr(other, 'six')\nmodule._penstock\n"))

    def test_a_missing_name_of_comfy_aimdo_is_named(self) -> None:
        self.refused(self.start(aimdo={"without": "vbars_analyze"}), "model_vbar.vbars_analyze")

    def test_a_missing_parameter_is_named(self) -> None:
        self.refused(self.start(aimdo={"without": "max_grow_size"}), "host_buffer.HostBuffer(max_grow_size)")

    def test_names_that_the_installed_version_lacks_are_not_shown(self) -> None:
        done = self.start("control = comfy_aimdo.control\n"
                          "print(hasattr(control, 'record'), hasattr(control, 'set_log_detail'),"
                          " hasattr(control, 'set_log_info'), hasattr(comfy_aimdo, 'malloc_graph'))")
        self.assertTrue(done.stdout.endswith("False False True False\n"), done.stdout)

    def test_a_broken_library_is_one_line(self) -> None:
        self.refused(self.start(PENSTOCK_LIBRARY="/nonexistent.so"), "libpenstock")

    def test_both_names_of_a_module_are_ours(self) -> None:
        done = self.start("import importlib, comfy_aimdo\n"
                          "one = importlib.import_module('comfy_aimdo.host_buffer')\n"
                          "print(one is comfy_aimdo.host_buffer, one.__name__)")
        self.assertTrue(done.stdout.endswith("True penstock_comfyui.surface.host_buffer\n"), done.stdout)


class Installing(WithFolders):
    def test_a_part_that_fails_leaves_the_others(self) -> None:
        """Here reads and sharing do, since torch is broken."""
        done = self.start(f"""
import importlib.util, types
broken = types.ModuleType("torch")
sys.modules["torch"] = broken
def old(*a): pass
class PromptExecutor:
    async def execute_async(self): pass
management = types.SimpleNamespace(EXTRA_RESERVED_VRAM=0, reset_cast_buffers=old, load_models_gpu=old, free_memory=old)
sys.modules["comfy"] = types.ModuleType("comfy")
sys.modules["comfy.model_management"] = management
async def execute(*a): pass
sys.modules["execution"] = types.SimpleNamespace(PromptExecutor=PromptExecutor, execute=execute)
runpy.run_path({str(FOLDER / '__init__.py')!r})
print("installed", management.load_models_gpu is not old)
""")
        lines = done.stdout.splitlines()
        self.assertEqual("installed True", lines[-1])
        for part in ("checkpoints are read by ComfyUI", "weights of models are not shared"):
            self.assertEqual(1, sum(part in line for line in lines), done.stdout)
        self.assertNotIn("asks are answered", done.stdout)


class WithoutService(WithFolders):
    DEVICES = "print('answer', comfy_aimdo.control.init_devices([0]), comfy_aimdo.control.lib is not None)\n"

    def test_their_answer_is_given_while_the_service_is_away(self) -> None:
        done = self.start(self.DEVICES)
        self.assertTrue(done.stdout.endswith("answer False True\n"), done.stdout)
        self.assertEqual(1, done.stdout.count("away"))


class Theirs(WithFolders):
    """A device that the service doesn't serve: everything goes on as without us."""

    def test_objects_and_answers_are_theirs(self) -> None:
        stand_in.write_aimdo(self.folder / "site", working=True)
        stand_in.write_comfyui(self.folder / "comfy")
        done = stand_in.run("""
from comfy_aimdo import control, host_buffer, model_mmap, model_vbar, vram_buffer
from penstock_comfyui import theirs
theirs.module("host_buffer").read_file_to_device = lambda *a, **k: print("read", a, k)
made = model_vbar.ModelVBAR(1000, 0), host_buffer.HostBuffer(0, 0, 0), vram_buffer.VRAMBuffer(10, 0), model_mmap.ModelMMAP("x")
print(*(type(one).__module__ for one in made))
part = made[0], 5, 6
print(model_vbar.vbar_fault(part), model_vbar.vbar_signature_compare(b"sig", b"sig"), model_vbar.vbars_analyze(0))
model_vbar.vbar_unpin(part)
host_buffer.read_file_to_device(1, 2, 3, 4, 5, 0, mark_cold=False)
print(made[0].unpinned, control.init(simple_vram_headroom=3), control.init_devices([(0, 9)]), control.get_devctx(0))
control.set_log_info(), control.analyze()
print(control.get_total_vram_usage(), theirs.module("control")._calls, control.lib is theirs.module("control").lib)
""", self.folder / "site", self.folder / "comfy", PENSTOCK_SOCKET="/nonexistent")
        self.assertEqual(("", [
            "comfy_aimdo.model_vbar comfy_aimdo.host_buffer comfy_aimdo.vram_buffer comfy_aimdo.model_mmap",
            "b'sig' True 77", "read (1, 2, 3, 4, 5, 0) {'mark_cold': False}", "True True True ctx",
            "5 [[(0, 9)], 'get_devctx', 'set_log_info', 'analyze', 'get_total_vram_usage'] True"]),
            (done.stderr, [line for line in done.stdout.splitlines() if not line.startswith("penstock: ")]))


class WithService(WithSeam):
    def test_host_devices_are_taken_over(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            stand_in.write_aimdo(Path(name) / "site")
            stand_in.write_comfyui(Path(name) / "comfy")
            done = stand_in.run(WithoutService.DEVICES + "from penstock_comfyui import theirs\n"
                                "print(theirs.module('control')._calls)", Path(name) / "site", Path(name) / "comfy",
                                PENSTOCK_SOCKET=str(self.daemon.socket))
        self.assertTrue(done.stdout.endswith("answer True True\n[]\n"), done.stdout + done.stderr)
        self.assertIn("penstock: in use", done.stdout)


if __name__ == "__main__":
    unittest.main()
