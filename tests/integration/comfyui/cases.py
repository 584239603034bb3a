# SPDX-License-Identifier: Apache-2.0
"""What the tests with a real ComfyUI have in common: a service with small pages, models, and the pictures of a plain ComfyUI."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import daemon  # noqa: E402
import server  # noqa: E402

SEEDS = (7, 8)
GATED = 9  # Sampled once: ComfyUI keeps what it did.


class SmallDaemon(daemon.Daemon):
    """Small pages, for models of a few MiB."""

    def __init__(self, capacity: str, page: str = "256KiB") -> None:
        self.page = page
        super().__init__(capacity=capacity)

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\n[host]\nlocked_bytes = "128MiB"\n'
                f'[device.host]\nenabled = "on"\ncapacity = "{capacity}"\nheadroom = "0"\npage_bytes = "{self.page}"\n'
                '[metrics]\nlisten = "127.0.0.1:0"\n')

    def total(self, metric: str) -> int:
        """Over all its labels."""
        with urllib.request.urlopen(f'http://{self.ask("status")["metrics"]["address"]}/metrics', timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if re.match(rf"{metric}[{{ ]", line))


def setUpModule() -> None:
    """Models, and what a plain ComfyUI makes of them."""
    if server.missing():
        raise unittest.SkipTest(server.missing())
    folder = tempfile.TemporaryDirectory(prefix="penstock-comfyui-")
    unittest.addModuleCleanup(folder.cleanup)
    for dtype in ("float16", "float32"):
        subprocess.run([server.PYTHON, str(server.HERE / "models.py"), str(Path(folder.name) / dtype), dtype], check=True)
        with server.Comfy(Path(folder.name) / f"plain-{dtype}", Path(folder.name) / dtype) as plain:
            Case.plain[dtype] = {seed: plain.run(seed=seed) for seed in (*SEEDS, GATED)}
            without_lora = plain.run(seed=SEEDS[0], lora=0.0)
        assert without_lora != Case.plain[dtype][SEEDS[0]], "the LoRA must change the picture"
    Case.models = Path(folder.name)


class Case(unittest.TestCase):
    models: Path
    plain: dict[str, dict[int, bytes]] = {}
    capacity = "64MiB"
    page = "256KiB"
    dtype = "float16"

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        self.daemon = self.enterContext(SmallDaemon(self.capacity, self.page))

    def comfy(self, *options: str, name: str = "one", on_host: bool = False, socket: Path | None = None) -> server.Comfy:
        verbose = ("--verbose", "DEBUG") if on_host else ()
        return self.enterContext(server.Comfy(self.folder / name, self.models / self.dtype, (*options, *verbose), on_host,
                                              socket or self.daemon.socket))

    def check(self, comfy: server.Comfy, seeds: tuple[int, ...] = SEEDS) -> None:
        for seed in seeds:
            self.assertTrue(comfy.run(seed=seed) == self.plain[self.dtype][seed], f"other pixels for seed {seed}")

    def sampled(self, comfy: server.Comfy, **changes: Any) -> bytes:
        """The pixels of a prompt that ComfyUI doesn't answer out of what it remembers."""
        prompt = comfy.submit(server.workflow(**changes))
        pixels = comfy.image(prompt)
        self.assertNotIn("sample", comfy.remembered(prompt))
        return pixels

    def kill_in_the_middle(self, killed: server.Comfy, other: server.Comfy, **changes: Any) -> bytes:
        """Both are between two steps of sampling when one of them is killed; the pixels that the other one makes."""
        holds = {each: self.folder / f"hold-{each.folder.name}" for each in (killed, other)}
        prompts = [each.submit(server.workflow(held=hold, **(changes if each is other else {}))) for each, hold in holds.items()]
        for each, hold in holds.items():
            self.assertTrue(daemon.wait_until(hold.with_suffix(".reached").exists, 120), each.log()[-2000:])
        killed.process.kill()
        killed.process.wait()
        self.assertTrue(daemon.wait_until(lambda: all(one["pid"] != killed.process.pid
                                                      for one in self.daemon.ask("status")["clients"])))
        holds[other].touch()
        pixels = other.image(prompts[1])
        self.assertNotIn("sample", other.remembered(prompts[1]))
        return pixels

    def client(self, comfy: server.Comfy) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.daemon.ask("status")["clients"]
                                     if one["pid"] == comfy.process.pid)
        return found

    def kinds(self, comfy: server.Comfy) -> dict[str, Any]:
        """What it says that it holds."""
        found: dict[str, Any] = self.client(comfy)["kinds"]
        return found

    def counts(self, comfy: server.Comfy) -> dict[str, int]:
        """The last that our `analyze` said, and what the service evicted; printed, as the run's record."""
        line = re.findall(r"so far (.*)", comfy.log())[-1]
        found = {name.replace(" ", "_"): int(value) for value, name in re.findall(r"(\d+) ([a-z ]+)", line)}
        found["evictions"] = self.daemon.total("penstock_evictions_total")
        print(f"\n{'.'.join(self.id().split('.')[-2:])}: {found}")
        return found

    def comes_back(self, comfy: server.Comfy) -> None:
        """The service is there again, and ComfyUI's next model is its."""
        self.daemon.start()
        self.assertTrue(daemon.wait_until(lambda: "devices" in self.daemon.ask("status")))
        names = (f"{self.daemon.folder.name}-{number}.safetensors" for number in itertools.count())
        self.assertTrue(daemon.wait_until(lambda: self.loads_through_the_service(comfy, next(names)), 60))

    def loads_through_the_service(self, comfy: server.Comfy, name: str) -> bool:
        """The same file by a new name, since ComfyUI remembers what it loaded. The service is asked for every 2 s."""
        file = self.models / self.dtype / "diffusion_models/flux.safetensors"
        (file.parent / name).symlink_to(file)
        self.assertTrue(comfy.run(seed=SEEDS[0], model=name) == self.plain[self.dtype][SEEDS[0]])
        return bool(self.daemon.device()["resident_bytes"] > 0)


class OneStart(Case):
    """Servers with DynamicVRAM that all tests of the class share; these follow each other by their names."""

    names: tuple[str, ...] = ("one",)
    servers: list[server.Comfy]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        cls.daemon = cls.enterClassContext(SmallDaemon(cls.capacity, cls.page))
        cls.servers = [cls.enterClassContext(server.Comfy(
            cls.folder / name, cls.models / cls.dtype, ("--verbose", "DEBUG"), True, cls.daemon.socket)) for name in cls.names]

    def setUp(self) -> None:
        """Nothing for one test alone."""

    def free(self) -> None:
        """What each has loaded, and what it remembers of prompts."""
        for comfy in self.servers:
            comfy.free()
            self.assertTrue(daemon.wait_until(lambda: self.kinds(comfy)["results"]["anonymous_bytes"] == 0))
