# SPDX-License-Identifier: Apache-2.0
"""The panel: its routes on a stand-in of ComfyUI's server, its scripts in node."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from comfyui import FOLDER
from comfyui.seam import MIB, PAGE, WithSeam, daemon
from penstock_comfyui import panel
from penstock_comfyui.link import link

WEB = FOLDER / "web"
SCRIPTS = {
    "app.js": "export const tabs = [];\nexport const app = { extensions: [], registerExtension(one) { this.extensions.push(one); },\n"
              "  extensionManager: { registerSidebarTab(tab) { tabs.push(tab); } } };\n",
    "api.js": "export const asked = [];\nexport const api = { async fetchApi(path) { asked.push(path);\n"
              "  return { ok: true, json: async () => ({ status: {}, decisions: [] }) }; } };\n",
}


class Routes(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.routes: dict[str, Any] = {}
        self.ours = SimpleNamespace(__name__="penstock_comfyui.surface.control")
        link.service()

    def install(self) -> bool:
        def get(path: str) -> Any:
            return lambda handler: self.routes.setdefault(path, handler)

        def json_response(content: Any, status: int, headers: dict[str, str]) -> Any:
            return SimpleNamespace(status=status, headers=headers, content=json.loads(json.dumps(content)))

        server = SimpleNamespace(PromptServer=SimpleNamespace(instance=SimpleNamespace(routes=SimpleNamespace(get=get))))
        with unittest.mock.patch.dict(sys.modules, {
                "server": server, "aiohttp": SimpleNamespace(), "aiohttp.web": SimpleNamespace(json_response=json_response),
                "comfy_aimdo.control": self.ours}):  # type: ignore[dict-item]
            return panel.install()

    def ask(self, path: str) -> Any:
        return asyncio.run(self.routes[path](None))

    def test_status_is_the_service_s_without_paths(self) -> None:
        self.assertTrue(self.install())
        file = self.daemon.folder / "secret-place.safetensors"
        daemon.write_checkpoint(file, 1, MIB)
        service = link.service()
        assert service is not None
        with service.open(file):
            reply = self.ask("/penstock/status")
        self.assertEqual((200, "no-store"), (reply.status, reply.headers["Cache-Control"]))
        self.assertTrue(any(one["pid"] == reply.content["pid"] for one in reply.content["status"]["clients"]))
        self.assertEqual(["secret-place.safetensors"], [one["name"] for one in reply.content["status"]["checkpoints"]])
        self.assertNotIn(str(self.daemon.folder), json.dumps(reply.content))

    def test_decisions_come_newest_first_and_bounded(self) -> None:
        self.install()
        service = link.service()
        assert service is not None
        table = service.private_table(16 * MIB)
        for turn in range(3):
            for page in range(48):
                table.fault(page * PAGE, PAGE)
                table.unpin(page * PAGE, PAGE)
            service.admit(work=PAGE).release()
        every = service.query("explain")["decisions"]
        self.assertGreater(len(every), 3)
        with unittest.mock.patch.object(panel, "DECISIONS_MAX", 3):
            self.assertEqual(every[-3:][::-1], self.ask("/penstock/explain").content["decisions"])
        self.assertIn("evict", {one["kind"] for one in every})
        table.close()

    def test_a_service_that_is_away_is_an_answer_too(self) -> None:
        self.install()
        link.reset("/nonexistent")
        reply = self.ask("/penstock/status")
        self.assertEqual((503, "unreachable"), (reply.status, reply.content["error"]["kind"]))

    def test_there_are_no_routes_where_penstock_is_not_used(self) -> None:
        self.ours = SimpleNamespace(__name__="comfy_aimdo.control")
        self.assertFalse(self.install())
        self.assertEqual({}, self.routes)


class Scripts(unittest.TestCase):
    def text(self, name: str) -> str:
        return (WEB / name).read_text(encoding="utf-8")

    def test_they_behave_on_a_small_page(self) -> None:
        node = shutil.which("node")
        if node is None:
            self.skipTest("requires node")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(WEB, folder / "extensions/penstock")
        (folder / "scripts").mkdir()
        for name, content in SCRIPTS.items():
            (folder / "scripts" / name).write_text(content)
        (folder / "package.json").write_text('{"type": "module"}')
        done = subprocess.run([node, "--test", str(Path(__file__).with_name("panel_test.mjs"))], capture_output=True, text=True,
                              check=False, timeout=60, env={"PENSTOCK_PANEL": str(folder), "PATH": "/usr/bin:/bin"})
        self.assertEqual(0, done.returncode, done.stdout[-4000:] + done.stderr[-1000:])
        self.assertRegex(done.stdout, r"# fail 0\b|ℹ fail 0\b")

    def test_comfyui_s_page_loads_one_small_script(self) -> None:
        self.assertEqual(["penstock.js"], [path.name for path in WEB.rglob("*.js")])
        text = self.text("penstock.js")
        self.assertLess(len(text), 2000)
        self.assertEqual(["../../scripts/api.js", "../../scripts/app.js"], re.findall(r'^import .* from "([^"]+)"', text, re.M))

    def test_nothing_comes_from_elsewhere_and_no_text_becomes_markup(self) -> None:
        for path in WEB.iterdir():
            text = path.read_text(encoding="utf-8")
            self.assertNotRegex(text, r"https?://|innerHTML|insertAdjacentHTML|document\.write|eval\(|setInterval")

    def test_colours_are_comfyui_s_or_the_system_s(self) -> None:
        style = self.text("panel.mjs").split("const style = `")[1].split("`;")[0]
        self.assertIn("color-scheme: light dark", style)
        self.assertNotRegex(style, r"#[0-9a-fA-F]{3,8}\b|rgba?\(")
        self.assertIn(":focus-visible", style)
        self.assertNotRegex(style, r"outline:\s*(none|0)\b")


if __name__ == "__main__":
    unittest.main()
