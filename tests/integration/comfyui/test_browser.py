# SPDX-License-Identifier: Apache-2.0
"""The panel in a browser, served by the real ComfyUI: in ComfyUI's own page, and in a page as small as it can be.

Needs what test_comfyui.py needs, and chromium (PENSTOCK_CHROMIUM names another one); ComfyUI's own page is in the package
comfyui-frontend-package. PENSTOCK_PICTURES names a folder where pictures of the panel are left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import daemon  # noqa: E402
import devtools  # noqa: E402
import server  # noqa: E402
from cases import SmallDaemon  # noqa: E402

SMALL = {
    "index.html": "<!doctype html><html lang=en><title>small</title><link rel=icon href='data:,'>"
                  "<style>body { color-scheme: light dark; }</style>"
                  "<button>penstock</button><div id=side style='width: 340px; height: 700px'></div>"
                  "<script type=module src=small.js></script></html>",
    "small.js": "import { app } from './scripts/app.js';\nimport './extensions/penstock/penstock.js';\n"
                "for (const one of app.extensions) one.setup();\n",
    "scripts/app.js": "let open = false;\nlet tab;\nconst side = document.getElementById('side');\n"
                      "const toggle = () => { open = !open; if (open) tab.render(side); else tab.destroy(); };\n"
                      "const button = document.querySelector('button');\n"
                      "export const app = { extensions: [], registerExtension(one) { this.extensions.push(one); },\n"
                      "  extensionManager: { command: { execute: toggle },\n"
                      "    registerSidebarTab(one) { tab = one; button.className = `${one.id}-tab-button`;\n"
                      "      button.addEventListener('click', toggle); } } };\n",
    "scripts/api.js": "export const api = { fetchApi: (path, options) => fetch(`/api${path}`, options) };\n",
}

# Who sets timers is told by the stack.
COUNT_TIMERS = """
window.ours = { timers: 0 };
for (const name of ['setTimeout', 'setInterval', 'requestAnimationFrame', 'requestIdleCallback']) {
  const plain = window[name];
  window[name] = function (...all) {
    if (new Error().stack.includes('/extensions/penstock/')) ++window.ours.timers;
    return plain.apply(window, all);
  };
}
"""
# [text's, background's] relative luminance, and their contrast, as WCAG 2 reckons it.
CONTRAST = """(() => {
  const style = getComputedStyle(document.querySelector('.penstock'));
  const pen = new OffscreenCanvas(1, 1).getContext('2d');
  const luminance = (colour) => {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [text, back] = [luminance(style.color), luminance(style.backgroundColor)];
  return { back, scheme: style.colorScheme, contrast: (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05) };
})()"""
ROWS = """Object.fromEntries([...document.querySelectorAll('.penstock table')].map((table) => [table.caption.textContent,
  [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))]))"""
FOCUS = "(document.activeElement.closest('.penstock') ? 'in ' : 'out ') + (document.activeElement.getAttribute('aria-label') ?? " \
        "document.activeElement.textContent)"


def shown(nbytes: float | None) -> str:
    """As the panel writes it."""
    if nbytes is None:
        return "–"
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            break
        nbytes /= 1024
    else:
        unit = "GiB"
    return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"


def setUpModule() -> None:
    if server.missing() or devtools.missing():
        raise unittest.SkipTest(server.missing() or devtools.missing())


class SmallPage(unittest.TestCase):
    """A page that has ComfyUI's two scripts, as far as they are needed, and nothing else."""

    daemon: SmallDaemon
    comfy: server.Comfy
    browser: devtools.Browser
    seeds = 10

    @classmethod
    def front(cls, folder: Path) -> Path:
        for name, content in SMALL.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        return folder

    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        front = cls.front(folder / "small")
        subprocess.run([server.PYTHON, str(server.HERE / "models.py"), str(folder / "models"), "float16"], check=True)
        settings = folder / "one/user/default/comfy.settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text('{"Comfy.TutorialCompleted": true}')  # Else a dialog lies over the page.
        cls.daemon = cls.enterClassContext(SmallDaemon("2MiB"))
        cls.comfy = cls.enterClassContext(server.Comfy(folder / "one", folder / "models", (), True, cls.daemon.socket, front))
        cls.comfy.run()
        cls.browser = cls.enterClassContext(devtools.Browser())
        cls.browser.before_each_page(COUNT_TIMERS)

    def setUp(self) -> None:
        self.browser.open(f"http://127.0.0.1:{self.comfy.port}/")
        self.browser.until("document.querySelector('.penstock-tab-button') !== null"
                           " && document.querySelector('#splash-loader') === null")

    def tearDown(self) -> None:
        self.assertEqual([], self.errors())

    def errors(self) -> list[str]:
        return self.browser.errors()

    def asked(self) -> list[str]:
        """Of us, by their paths."""
        return [one.partition(f":{self.comfy.port}")[2] for one in self.browser.requests() if "penstock" in one]

    def open_panel(self) -> None:
        """With the keyboard."""
        self.browser.run("document.querySelector('.penstock-tab-button').focus()")
        self.browser.press("Enter")
        self.browser.until("document.querySelectorAll('.penstock table').length >= 3")

    def picture(self, name: str) -> None:
        folder = os.environ.get("PENSTOCK_PICTURES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.browser.picture(Path(folder) / f"{type(self).__name__}-{name}.png")

    def tells_what_it_holds(self) -> bool:
        """At the end of a prompt, if it has found the service again by then. ComfyUI remembers what it did for a seed."""
        type(self).seeds += 1
        self.comfy.run(seed=self.seeds)
        return any("kinds" in one for one in self.daemon.ask("status")["clients"])

    def nothing_happens(self) -> None:
        """For longer than it takes an open panel to ask again."""
        before = (self.asked(), self.browser.run("ours.timers"))
        self.browser.run("new Promise((done) => setTimeout(done, 5000))")
        self.assertEqual(before, (self.asked(), self.browser.run("ours.timers")))

    def test_costs_nothing_until_it_is_opened_and_once_it_is_closed(self) -> None:
        self.assertEqual((["/extensions/penstock/penstock.js"], 0), (self.asked(), self.browser.run("ours.timers")))
        self.nothing_happens()
        self.open_panel()
        self.assertIn("/api/penstock/status", self.asked())
        asked = len(self.asked())
        self.browser.until(f"ours.timers > 1 && performance.getEntriesByType('resource').length > {asked}")
        self.browser.press("Enter")  # The button still has the focus.
        self.browser.until("document.querySelector('.penstock') === null")
        self.browser.run("new Promise((done) => setTimeout(done, 100))")  # An answer may have been under way.
        self.nothing_happens()

    def test_the_keyboard_reaches_all_of_it_and_leaves_it(self) -> None:
        self.open_panel()
        stops: list[str] = []
        while "in Checkpoints" not in stops and len(stops) < 40:
            self.browser.press("Tab")
            stops.append(self.browser.run(FOCUS))
        self.assertEqual(["in Refresh", "in Devices", "in This ComfyUI", "in Checkpoints"],
                         [one for one in stops if one.startswith("in ")])
        self.picture("keyboard")
        for _ in range(3):
            self.browser.press("Tab", devtools.SHIFT)
        self.assertEqual("in Refresh", self.browser.run(FOCUS))
        timers = self.browser.run("ours.timers")
        self.browser.press("Enter")
        self.browser.until(f"ours.timers > {timers}", 1.9)  # Sooner than it asks by itself.
        self.browser.press("Escape")
        self.browser.until("document.querySelector('.penstock') === null")
        self.browser.until("document.activeElement.classList.contains('penstock-tab-button')")
        self.browser.press("Enter")
        self.browser.until("document.querySelectorAll('.penstock table').length >= 3")

    def test_its_rows_are_what_the_service_says(self) -> None:
        self.open_panel()
        answer = json.loads(self.comfy.ask("/penstock/status"))
        rows = self.browser.run(ROWS)
        (device,) = answer["status"]["devices"]
        self.assertEqual([["host", *(shown(device[key]) for key in ("resident_bytes", "capacity_bytes", "pinned_bytes")),
                           shown(device["foreign_bytes"])]], rows["Devices"])
        own = next(one for one in answer["status"]["clients"] if one["pid"] == self.comfy.process.pid)
        kinds = {row[0]: row[1:] for row in rows["This ComfyUI"]}
        self.assertEqual({*own["kinds"], "process"}, {*kinds} - {"swapped"})
        for name in ("weights", "results"):
            kind = own["kinds"][name]
            on_devices = kind.get("devices")
            expected = [shown(sum(on_devices.values()) if on_devices else None),
                        *(shown(kind.get(f"{place}_bytes")) for place in ("locked_host", "anonymous", "page_cache", "disk"))]
            self.assertEqual(expected, kinds[name])
        self.assertEqual({"flux.safetensors", "taesd.safetensors"}, {row[0] for row in rows["Checkpoints"]})
        told = self.browser.run("document.querySelector('.penstock ol').textContent")
        self.assertRegex(told, r"Evicted [0-9.]+ [KM]iB of (flux|taesd)\.safetensors to make room for a page that was needed")

    def test_it_says_that_the_service_is_away_and_comes_back(self) -> None:
        self.open_panel()
        self.daemon.process.kill()
        self.daemon.process.wait()
        said = "document.querySelector('.penstock [role=status]').textContent"
        self.browser.until(f"{said}.startsWith(\"The service can't be asked\")")
        self.daemon.start()
        self.browser.until(f"{said} === ''")
        self.assertTrue(daemon.wait_until(self.tells_what_it_holds, 120))
        self.browser.until("document.querySelector('.penstock').textContent.includes('weights')")
        # That an answer says 503 stands in the console: the browser writes that, and no script can keep it from that.
        self.browser.events = [one for one in self.browser.events if "503" not in json.dumps(one["params"])]

    def test_it_is_readable_in_light_and_dark(self) -> None:
        self.open_panel()
        for scheme in ("light", "dark"):
            self.switch_to(scheme)
            found = self.browser.run(CONTRAST)
            self.picture(scheme)
            self.assertGreater(found["contrast"], 4.5, scheme)
            self.check_background(scheme, found)

    def switch_to(self, scheme: str) -> None:
        self.browser.colours(scheme)

    def check_background(self, scheme: str, found: dict[str, Any]) -> None:
        (self.assertGreater if scheme == "light" else self.assertLess)(found["back"], 0.5)


class ComfyPage(SmallPage):
    """ComfyUI's own page."""

    @classmethod
    def front(cls, folder: Path) -> Path:
        found = subprocess.run([server.PYTHON, "-c", "import comfyui_frontend_package as one; print(list(one.__path__)[0])"],
                               capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise unittest.SkipTest("requires comfyui-frontend-package")
        return Path(found.stdout.strip()) / "static"

    def errors(self) -> list[str]:
        """It has some of its own."""
        return [one for one in super().errors() if "penstock" in one]

    def switch_to(self, scheme: str) -> None:
        """ComfyUI's, while the system prefers the other one."""
        self.browser.colours("dark" if scheme == "light" else "light")
        self.browser.run(f"app.extensionManager.setting.set('Comfy.ColorPalette', '{scheme}')")
        self.browser.until(f"document.documentElement.classList.contains('dark-theme') === {json.dumps(scheme == 'dark')}")

    def check_background(self, scheme: str, found: dict[str, Any]) -> None:
        super().check_background(scheme, found)
        self.assertEqual(scheme, found["scheme"])


if __name__ == "__main__":
    unittest.main()
