# SPDX-License-Identifier: Apache-2.0
"""One file in two loaders of a real ComfyUI, and in two of those, where one has a LoRA from the start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import server  # noqa: E402
from cases import SEEDS, SmallDaemon  # noqa: E402


@unittest.skipIf(server.missing(), server.missing())
class TwoLoaders(unittest.TestCase):
    models: Path
    plain: list[bytes]

    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        cls.models = folder / "models"
        subprocess.run([server.PYTHON, str(server.HERE / "models.py"), str(cls.models)], check=True)
        flux = cls.models / "diffusion_models/flux.safetensors"
        (flux.parent / "again.safetensors").symlink_to(flux)
        with server.Comfy(folder / "plain", cls.models) as comfy:
            cls.plain = cls.pictures(comfy)
        assert len(set(cls.plain)) == 4, "the LoRA must change the picture"

    @staticmethod
    def pictures(comfy: server.Comfy) -> list[bytes]:
        """With and without the LoRA, and once more with other noise: both models are there by then."""
        prompts = [comfy.submit(server.two_loaders("again.safetensors", seed)) for seed in SEEDS]
        return [comfy.image(prompt, node) for prompt in prompts for node in ("save", "other")]

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        self.daemon = self.enterContext(SmallDaemon("64MiB"))

    def comfy(self, name: str) -> server.Comfy:
        return self.enterContext(server.Comfy(self.folder / name, self.models, ("--verbose", "DEBUG"), True,
                                              self.daemon.socket))

    def test_in_one_server_each_has_its_own_changes(self) -> None:
        comfy = self.comfy("one")
        self.assertEqual([True] * 4, [one == other for one, other in zip(self.pictures(comfy), self.plain)])
        self.assertTrue("not shared: another one of this process has the same" in comfy.log())

    def test_two_servers_have_one_copy_where_one_begins_with_a_lora(self) -> None:
        """ComfyUI allocates what has a patch in another order."""
        one, two = self.comfy("one"), self.comfy("two")
        self.assertTrue(one.run(seed=SEEDS[0], lora=0.0) == self.plain[1])
        alone, read = self.daemon.device()["resident_bytes"], self.daemon.total("penstock_read_bytes_total")
        self.assertTrue(two.run(seed=SEEDS[0]) == self.plain[0])
        private = int(re.findall(r"(\d+) pages made private", two.log())[-1])
        self.assertGreater(private, 0)
        self.assertEqual(alone + private * (256 << 10), self.daemon.device()["resident_bytes"])
        self.assertEqual(read, self.daemon.total("penstock_read_bytes_total"))
        self.assertTrue(one.run(seed=SEEDS[0], lora=0.0) == self.plain[1])


if __name__ == "__main__":
    unittest.main()
