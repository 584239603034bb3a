# SPDX-License-Identifier: Apache-2.0
"""The real ComfyUI with and without penstock: the same pixels.

Needs a checkout of ComfyUI (PENSTOCK_COMFYUI_DIR) and a Python with its requirements (PENSTOCK_COMFYUI_PYTHON; versions in
requirements.txt). Pixels are compared with those of a plain ComfyUI in the same run: they depend on the number of threads,
on torch and on the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import daemon  # noqa: E402
import server  # noqa: E402
from cases import GATED, SEEDS, Case, OneStart, SmallDaemon, setUpModule  # noqa: E402, F401


class Ledger(Case):
    """`--cpu`: checkpoints come from the service."""

    def test_a_file_that_the_service_refuses_goes_to_comfyui_with_the_reason(self) -> None:
        small = self.enterContext(SmallDaemon("512KiB"))
        comfy = self.comfy(socket=small.socket)
        self.check(comfy)
        self.assertEqual(1, comfy.log().count("flux.safetensors is read by ComfyUI"))

    def test_without_a_service_nothing_is_changed_and_it_is_used_when_it_comes(self) -> None:
        self.assertEqual(0, self.daemon.stop())
        comfy = self.comfy()
        self.check(comfy)
        self.assertEqual(1, comfy.log().count("the service is away"))
        self.comes_back(comfy)


class LedgerZeroCopy(Case):
    """A file of the model's own dtype: its pages are the model's parameters."""

    dtype = "float32"

    def test_two_servers_share_one_copy_and_one_outlives_the_other(self) -> None:
        one, two = self.comfy(name="one"), self.comfy(name="two")
        self.check(one)
        alone = self.daemon.device()["resident_bytes"]
        self.check(two)
        self.assertEqual(alone, self.daemon.device()["resident_bytes"])
        model = (self.models / self.dtype / "diffusion_models/flux.safetensors").stat().st_size
        for each in (one, two):
            self.assertGreaterEqual(self.client(each)["pinned_bytes"], model)
            weights = self.kinds(each)["weights"]
            # The decoder computes in 16 bits.
            self.assertGreater(weights["devices"]["host"], model * 9 // 10)
        plain = self.plain[self.dtype]
        one.free()
        self.assertTrue(daemon.wait_until(lambda: self.client(one)["pinned_bytes"] == 0))
        self.assertEqual(alone, self.daemon.device()["resident_bytes"], "the other one has it, too")
        self.assertTrue(self.sampled(two, seed=SEEDS[0], lora=0.0) != plain[SEEDS[0]])
        self.assertTrue(self.kill_in_the_middle(one, two, seed=GATED) == plain[GATED])
        self.free(two)
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0), "it was the last that had it")
        for seed in SEEDS:
            self.assertTrue(self.sampled(two, seed=seed) == plain[seed])

    def free(self, comfy: server.Comfy) -> None:
        """And what it remembers is gone."""
        comfy.free()
        self.assertTrue(daemon.wait_until(lambda: self.kinds(comfy)["results"]["anonymous_bytes"] == 0))


class Roomy(OneStart):
    """DynamicVRAM with room for everything. The files are of f16: the service widens the model."""

    def test_at_first_same_pixels_freed_and_loaded_again(self) -> None:
        (comfy,) = self.servers
        self.check(comfy)
        counts = self.counts(comfy)
        self.assertGreater(counts["faults"], 50)
        self.assertEqual((0, counts["faults"]), (counts["offloaded"], counts["unpins"]))
        self.assertEqual((0, 0), (self.client(comfy)["pinned_bytes"], self.daemon.device()["booked_bytes"]))
        held = self.daemon.device()["resident_bytes"]
        kinds = self.kinds(comfy)
        # The model computes in f32, the decoder in 16 bits, whatever their files have.
        model, decoder = ((self.models / "float32" / name).stat().st_size
                          for name in ("diffusion_models/flux.safetensors", "vae/taesd.safetensors"))
        self.assertAlmostEqual(1.0, held / (model + decoder / 2), delta=0.1)
        self.assertEqual((held, 0), (kinds["weights"]["devices"]["host"], kinds["carry"]["anonymous_bytes"]))
        # The picture, and the latent image that it was made of.
        self.assertGreaterEqual(kinds["results"]["anonymous_bytes"], 128 * 128 * 3 * 4)
        self.assertGreater(kinds["other"]["anonymous_bytes"], 0)
        self.check_panel(comfy)
        self.free()
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))
        self.assertEqual(0, self.kinds(comfy)["weights"]["devices"].get("host", 0))
        self.check(comfy)

    def check_panel(self, comfy: server.Comfy) -> None:
        """Its routes, with and without the prefix of ComfyUI's API; its scripts, of which the page loads one."""
        for prefix in ("", "/api"):
            shown = json.loads(comfy.ask(f"{prefix}/penstock/status"))
            own = next(one for one in shown["status"]["clients"] if one["pid"] == shown["pid"])
            self.assertEqual(comfy.process.pid, own["pid"])
            self.assertIn("weights", own["kinds"])
            self.assertIn("decisions", json.loads(comfy.ask(f"{prefix}/penstock/explain")))
        ours = [one for one in json.loads(comfy.ask("/extensions")) if "penstock" in one]
        self.assertEqual(["/extensions/penstock/penstock.js"], ours)
        for name in ("penstock.js", "panel.mjs", "words.mjs"):
            with urllib.request.urlopen(f"http://127.0.0.1:{comfy.port}/extensions/penstock/{name}", timeout=60) as reply:
                self.assertIn("javascript", reply.headers["Content-Type"])
                self.assertEqual((server.NODE / "web" / name).read_bytes(), reply.read())

    def test_killed_and_restarted_in_the_middle_of_a_prompt(self) -> None:
        (comfy,) = self.servers
        self.free()
        self.check(comfy, SEEDS[:1])
        prompt = comfy.submit(server.workflow(seed=SEEDS[1]))
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.start()
        self.assertTrue(comfy.image(prompt) == self.plain[self.dtype][SEEDS[1]])
        # And where it is certain that the model has been used and the decoder has not.
        gate = self.folder / "gate"
        prompt = comfy.submit(server.workflow(seed=GATED, gate=gate))
        self.assertTrue(daemon.wait_until(gate.with_suffix(".reached").exists, 120))
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.start()
        gate.touch()
        self.assertTrue(comfy.image(prompt) == self.plain[self.dtype][GATED])
        comfy.free()
        self.check(comfy)


class Absent(Case):
    def test_nothing_is_changed_and_it_is_used_when_it_comes(self) -> None:
        self.assertEqual(0, self.daemon.stop())
        comfy = self.comfy(on_host=True)
        self.check(comfy)
        self.assertEqual(1, comfy.log().count("the service is away"))
        self.comes_back(comfy)


class Sharing(OneStart):
    """Two servers with one checkpoint."""

    names = ("one", "two")

    def read_bytes(self) -> int:
        return self.daemon.total("penstock_read_bytes_total")

    def test_at_first_two_prompts_at_once_read_their_weights_once(self) -> None:
        prompts = [one.submit(server.workflow(seed=SEEDS[0])) for one in self.servers]
        for one, prompt in zip(self.servers, prompts):
            self.assertTrue(one.image(prompt) == self.plain[self.dtype][SEEDS[0]])
            self.assertGreater(self.counts(one)["faults"], 0)
        files = [self.models / self.dtype / name for name in ("diffusion_models/flux.safetensors", "vae/taesd.safetensors")]
        read = self.read_bytes()
        print(f"read {read} bytes of {[file.stat().st_size for file in files]}")
        self.assertGreater(read, 0)
        # Half of the second one is an encoder, which nobody uses: twice would be more than both.
        self.assertLessEqual(read, sum(file.stat().st_size for file in files))

    def test_one_copy_read_once_and_one_outlives_the_other(self) -> None:
        one, two = self.servers
        self.free()
        self.assertTrue(daemon.wait_until(lambda: "failure" not in self.daemon.ask("evict", "--all")
                                          and self.daemon.device()["resident_bytes"] == 0))
        made = [self.counts(each)["pages_made_private"] for each in self.servers]
        plain = self.plain[self.dtype]
        without = one.run(seed=SEEDS[0], lora=0.0)
        alone, read = self.daemon.device()["resident_bytes"], self.read_bytes()
        self.assertEqual(made[0], self.counts(one)["pages_made_private"])
        self.assertTrue(two.run(seed=SEEDS[0], lora=0.0) == without)
        self.assertEqual((alone, read), (self.daemon.device()["resident_bytes"], self.read_bytes()))
        # Its LoRA changes one module.
        self.assertTrue(two.run(seed=SEEDS[0]) == plain[SEEDS[0]])
        private = self.counts(two)["pages_made_private"] - made[1]
        self.assertGreater(private, 0)
        self.assertEqual(alone + private * (256 << 10), self.daemon.device()["resident_bytes"])
        self.assertLess(private * (256 << 10), alone)
        self.assertTrue(self.kill_in_the_middle(two, one, seed=SEEDS[0], lora=0.0) == without)
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == alone))
        self.assertEqual(read, self.read_bytes())
        self.assertTrue(self.sampled(one, seed=SEEDS[1]) == plain[SEEDS[1]])
        one.free()
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))


class SmallBudget(Case):
    """A fifth of the model, which has 3.7 MiB in the dtype that it computes in."""

    capacity = "736KiB"
    page = "32KiB"

    def check_budget(self, comfy: server.Comfy) -> None:
        counts = self.counts(comfy)
        self.assertGreater(counts["faults"], counts["offloaded"])
        self.assertGreater(counts["evictions"], 0)
        self.assertEqual(counts["faults"], counts["unpins"])
        self.assertLessEqual(self.daemon.device()["resident_bytes"], 736 << 10)

    def test_same_pixels(self) -> None:
        comfy = self.comfy(on_host=True)
        self.check(comfy)
        self.check(comfy)
        self.check_budget(comfy)

    def test_same_pixels_without_pinned_memory(self) -> None:
        comfy = self.comfy("--disable-pinned-memory", on_host=True)
        self.check(comfy)
        self.check_budget(comfy)
        self.assertEqual(0, self.daemon.ask("status")["host"]["locked_bytes"])

    def test_same_pixels_with_a_fast_disk(self) -> None:
        comfy = self.comfy("--fast-disk", on_host=True)
        self.check(comfy)
        self.check_budget(comfy)


class TinyBudget(Case):
    """Two pages, which most weights don't fit into."""

    capacity = "512KiB"

    def test_same_pixels_where_most_is_offloaded(self) -> None:
        comfy = self.comfy(on_host=True)
        self.check(comfy)
        counts = self.counts(comfy)
        self.assertGreater(counts["offloaded"], 0)
        self.assertGreater(counts["faults"], counts["offloaded"])
        self.assertLessEqual(self.daemon.device()["resident_bytes"], 512 << 10)


class Around(Case):
    """What it must not change."""

    def lines(self, comfy: server.Comfy) -> list[str]:
        """Of ours in its log."""
        return [line for line in comfy.log().splitlines() if "penstock: " in line]

    def clients(self) -> list[str]:
        """But for the command that asks for them."""
        return [one["name"] for one in self.daemon.ask("status")["clients"] if one["name"] != "penstock"]

    def has_no_routes(self, comfy: server.Comfy) -> bool:
        try:
            comfy.ask("/penstock/status")
        except urllib.error.HTTPError as error:
            return error.code == 404
        return False

    def test_same_pixels_and_taken_out_it_leaves_no_trace(self) -> None:
        def tree(folder: Path) -> set[str]:
            found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
            return {one for one in found if not one.startswith("custom_nodes/penstock")}

        with server.Comfy(self.folder / "plain", self.models / self.dtype) as plain:
            self.check(plain)
        with server.Comfy(self.folder / "one", self.models / self.dtype, penstock=self.daemon.socket) as comfy:
            self.check(comfy)
            self.assertIn("penstock: in use", comfy.log())
            # Its checkpoints came from the service; only the read is shared, since dtypes differ.
            self.assertNotIn("is read by ComfyUI", comfy.log())
            self.assertGreater(self.daemon.device()["resident_bytes"], 0)
        shutil.rmtree(self.folder / "one/custom_nodes/penstock")
        self.assertEqual(tree(self.folder / "plain"), tree(self.folder / "one"))
        with server.Comfy(self.folder / "one", self.models / self.dtype, penstock=self.daemon.socket) as comfy:
            self.check(comfy)
            self.assertNotIn("penstock: ", comfy.log())
            self.assertTrue(self.has_no_routes(comfy))
        self.assertEqual([], self.clients())

    def test_an_unknown_comfyui_is_refused_in_one_line(self) -> None:
        copy = self.folder / "comfyui"
        copy.mkdir()
        for path in Path(server.COMFYUI).iterdir():
            if path.suffix == ".py":
                shutil.copy(path, copy)
            else:
                (copy / path.name).symlink_to(path)
        (copy / "comfyui_version.py").write_text('__version__ = "0.99.0"\n')
        self.refuses("ComfyUI 0.99.0 is not known", main=copy / "main.py")

    def test_an_unknown_comfy_aimdo_is_refused_in_one_line(self) -> None:
        info = self.folder / "site/comfy_aimdo-0.9.9.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: comfy-aimdo\nVersion: 0.9.9\n")
        self.refuses("comfy-aimdo 0.9.9 is not known", paths=info.parent)

    def refuses(self, why: str, **how: Path) -> None:
        with server.Comfy(self.folder / "one", self.models / self.dtype, penstock=self.daemon.socket, **how) as comfy:
            self.check(comfy)
            (line,) = self.lines(comfy)
            self.assertIn(f"penstock: not used: {why}", line)
            self.assertTrue(self.has_no_routes(comfy))
            self.assertEqual([], self.clients())


class RoomyF32(Roomy):
    """Files of f32: the service narrows the decoder."""

    dtype = "float32"


if __name__ == "__main__":
    unittest.main()
