# SPDX-License-Identifier: Apache-2.0
"""The same calls of the published modules and of ours: what they return, what they raise, which names there are. Only those that
need no GPU; the others are held to the seam's rules in test_seam and test_caller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from comfyui import FOLDER
from comfyui.seam import WithSeam
from comfyui.wheels import VERSIONS, Wheels
from penstock_comfyui import theirs
from penstock_comfyui.fingerprint import surface
from penstock_comfyui.gate import own_surface

SCRIPT = Path(__file__).with_name("behaviour.py")
# Every difference, and why.
DIFFERENCES = {
    "control: devices: none of a name": "theirs is asked, whose library is not loaded in our process: ComfyUI --cpu relies on its no",
}


class Behaviour(WithSeam):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.wheels = Wheels(cls)

    def setUp(self) -> None:
        super().setUp()
        # What torch is needed for is left out.
        names = {f"{module}.{name}" for module in theirs.NAMES if module != "torch"
                 for name in (*own_surface(module), *self.published(module)) if not name.endswith("__")}
        self.names = self.daemon.folder / "names.json"
        self.names.write_text(json.dumps(sorted(names)))

    def published(self, module: str) -> set[str]:
        found: set[str] = set()
        for number in range(len(VERSIONS)):
            path = self.wheels.unpacked(self, number) / f"comfy_aimdo/{module}.py"
            found.update(surface(path.read_text()) if path.exists() else ())
        return found

    def outcomes(self, number: int, side: str) -> dict[str, Any]:
        folder = self.daemon.folder / f"{side}-{number}"
        folder.mkdir()
        site = self.wheels.unpacked(self, number)
        done = subprocess.run([sys.executable, str(SCRIPT), side, str(folder), str(self.names)], capture_output=True, text=True,
                              check=False, env=dict(os.environ, PYTHONPATH=f"{site}:{FOLDER / 'python'}",
                                                    PENSTOCK_SOCKET=str(self.daemon.socket)))
        self.assertEqual(0, done.returncode, done.stderr)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def test_every_version_s_answers_are_ours(self) -> None:
        different: set[str] = set()
        for number, version in enumerate(VERSIONS):
            with self.subTest(version):
                published, ours = self.outcomes(number, "theirs"), self.outcomes(number, "ours")
                self.assertGreater(len(published), 50)
                self.assertEqual(published.pop("names"), ours.pop("names"))
                self.assertEqual(published.keys(), ours.keys())
                found = {call: (answer, ours[call]) for call, answer in published.items() if answer != ours[call]}
                different |= found.keys()
                self.assertEqual({}, {call: both for call, both in found.items() if call not in DIFFERENCES}, "not listed")
        self.assertEqual(set(DIFFERENCES), different, "every listed difference is one")
