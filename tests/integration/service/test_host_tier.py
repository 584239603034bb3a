# SPDX-License-Identifier: Apache-2.0
"""The pinned host tier: GPUs, on fake drivers, that are filled from one locked copy of a checkpoint on the node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path
from typing import Any

import daemon
from limited_cgroup import LimitedCgroup
from test_gpu_devices import Client, GpuDaemon, needs_fakes

if not daemon.SANITIZED:
    sys.path.insert(0, str(daemon.BUILD / "python"))
    import penstock

MIB = 1 << 20
PAGE = 32 * MIB
TIER_PAGE = 8 * MIB
PROGRAM = daemon.BUILD / "tests/bin/gpu_program"


class HostTier(unittest.TestCase):
    vendor = "cuda"

    def start(self, locked: str = "256MiB", words: tuple[str, ...] = (), **more: str) -> GpuDaemon:
        needs_fakes(self, self.vendor)
        return self.enterContext(GpuDaemon(self.vendor, f'[host]\nlocked_bytes = "{locked}"\n', words=words, **more))

    def checkpoint(self, running: GpuDaemon, name: str = "m", tensors: int = 24, seed: int = 1) -> Path:
        path = running.folder / f"{name}.safetensors"
        daemon.write_checkpoint(path, tensors=tensors, seed=seed)
        return path

    def load(self, running: GpuDaemon, path: Path, *words: str) -> dict[str, Any]:
        answer = running.ask("load", str(path), *words)
        self.assertNotIn("error", answer)
        return answer

    def tier(self, running: GpuDaemon) -> dict[str, Any]:
        found: dict[str, Any] = running.ask("status")["host"]["tier"]
        return found

    def is_right(self, running: GpuDaemon, path: Path, pages: int = 3) -> None:
        """What a client finds in the GPU's memory is what is in the file."""
        if not PROGRAM.exists():
            return
        with Client(PROGRAM, running, path) as client:
            self.assertEqual(["done", "done"], [client("driver"), client("open")])
            for page in range(pages):
                self.assertEqual("done", client(f"pin {page * PAGE} {PAGE}"))
                self.assertEqual(["done", "same"], [client(f"copy {page * PAGE} {PAGE}"), client("landed")])

    def test_what_was_evicted_comes_back_without_a_read(self) -> None:
        running = self.start()
        path = self.checkpoint(running)
        self.load(running, path)
        read = running.device()["read_bytes"]
        first = self.tier(running)
        size = path.stat().st_size
        self.assertEqual(size, read, "nothing is read twice")
        # Two boundaries of the GPU's pages lie in a page of the tier each: its last part may find what its first part, the
        # header's length, had read for it, if that was over by then.
        self.assertLessEqual(first["hit_bytes"], 2 * (TIER_PAGE - (size - 24 * 4 * MIB)) + 2 * 4096)
        asked = first["hit_bytes"] + first["miss_bytes"]
        self.assertTrue(24 * 4 * MIB <= asked <= size, first)
        running.ask("evict", "--all")
        self.assertEqual(0, running.device()["used_bytes"])
        again = self.load(running, path)
        self.assertEqual(0, again["read_bytes"])
        self.assertEqual(read, running.device()["read_bytes"])
        status = running.ask("status")
        self.assertEqual(asked, status["host"]["tier"]["hit_bytes"] - first["hit_bytes"])
        self.assertEqual(first["miss_bytes"], status["host"]["tier"]["miss_bytes"])
        self.assertEqual(size, status["checkpoints"][0]["locked_host_bytes"])
        self.assertEqual(status["host"]["tier"]["used_bytes"], status["host"]["locked_bytes"])
        self.assertEqual(0, status["host"]["tier"]["evictions"])
        self.is_right(running, path)
        self.assertEqual(0, running.stop())

    def test_two_clients_of_a_checkpoint_have_one_copy_on_the_gpu_and_one_in_locked_memory(self) -> None:
        if not PROGRAM.exists():
            self.skipTest(f"requires {PROGRAM}")
        running = self.start()
        path = self.checkpoint(running)

        def use(client: Client) -> None:
            self.assertEqual(["done", "done"], [client("driver"), client("open")])
            for page in range(3):
                self.assertEqual("done", client(f"pin {page * PAGE} {PAGE}"))
                self.assertEqual(["done", "same"], [client(f"copy {page * PAGE} {PAGE}"), client("landed")])

        def figures() -> dict[str, int]:
            """All bytes of the node that are on the device, locked, or some client's own."""
            status = running.ask("status")
            found = {name: sum(one[name] for one in status["devices"]) for name in ("resident_bytes", "used_bytes", "read_bytes")}
            found.update({name: status["host"][name] for name in ("locked_bytes", "buffer_bytes")})
            found.update({f"clients_{name}": sum(one[name] for one in status["clients"])
                          for name in ("private_bytes", "locked_host_bytes")})
            return found

        with Client(PROGRAM, running, path) as first:
            use(first)
            self.assertTrue(daemon.wait_until(lambda: figures()["locked_bytes"] == 13 * TIER_PAGE))
            alone = figures()
            self.assertEqual((3 * PAGE, 0, 0, 0), tuple(alone[name] for name in (
                "resident_bytes", "buffer_bytes", "clients_private_bytes", "clients_locked_host_bytes")))
            with Client(PROGRAM, running, path) as second:
                use(second)
                self.assertEqual(2, running.ask("status")["checkpoints"][0]["clients"])
                self.assertEqual(alone, figures())
                # Both have all of it pinned at once.
                pinned = [one["pinned_bytes"] for one in running.ask("status")["clients"] if one["pinned_bytes"]]
                self.assertEqual([3 * PAGE] * 2, pinned)
            self.assertTrue(daemon.wait_until(lambda: running.ask("status")["checkpoints"][0]["clients"] == 1))
            self.assertEqual(alone, figures())

    def test_two_gpus_read_a_checkpoint_once_and_share_one_copy(self) -> None:
        running = self.start(PENSTOCK_FAKE_DEVICES="2")
        path = self.checkpoint(running)
        devices = [device["id"] for device in running.ask("status")["devices"]]
        for device in devices:
            self.load(running, path, "--device", device)
        status = running.ask("status")
        self.assertLess(0, status["devices"][0]["read_bytes"])
        self.assertEqual(0, status["devices"][1]["read_bytes"])
        self.assertEqual(3 * PAGE, status["devices"][1]["resident_bytes"])
        self.assertEqual(13 * TIER_PAGE, status["host"]["tier"]["used_bytes"])

    def test_a_small_budget_holds_a_part_and_says_what_it_dropped(self) -> None:
        running = self.start("32MiB")
        first, *others = (self.checkpoint(running, f"m{seed}", seed=seed) for seed in (1, 2, 3))
        for path in (first, first, *others):
            self.load(running, path)
            self.is_right(running, path)
            running.ask("evict", "--all")
        tier = self.tier(running)
        self.assertLessEqual(tier["used_bytes"], 32 * MIB)
        self.assertGreaterEqual(tier["hit_bytes"], 31 * MIB)
        self.assertLess(0, tier["evictions"])

        def dropped() -> list[dict[str, Any]]:
            return [one for one in running.ask("explain")["decisions"] if one["kind"] == "tier_evict"]

        self.assertTrue(daemon.wait_until(lambda: bool(dropped())))
        self.assertEqual("replaced", dropped()[0]["reason"])
        self.assertEqual(12, len(dropped()[0]["subject"]))

    def test_a_replaced_file_is_not_served_from_the_old_copy(self) -> None:
        running = self.start()
        path = self.checkpoint(running)
        self.load(running, path)
        new = self.checkpoint(running, "new", seed=9)
        os.replace(new, path)
        self.load(running, path)
        self.is_right(running, path)

        # Written in place: the copy is of another file from then on, and goes.
        daemon.write_checkpoint(path, tensors=24, seed=5)
        self.load(running, path)
        self.is_right(running, path)
        self.assertTrue(daemon.wait_until(lambda: self.tier(running)["used_bytes"] <= 2 * 13 * TIER_PAGE))

    def test_a_writer_that_is_killed_in_mid_copy_leaves_nothing_pinned(self) -> None:
        running = self.start(PENSTOCK_FAKE_STREAM_DELAY_US="2000")
        path = self.checkpoint(running)
        self.load(running, path)
        running.ask("evict", "--all")
        before = running.descriptors()
        hits = self.tier(running)["hits"]
        (writer,) = running.writers()
        with subprocess.Popen([daemon.PENSTOCK, "load", path], env=running.environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL):
            self.assertTrue(daemon.wait_until(lambda: self.tier(running)["hits"] > hits))
            self.assertLess(running.device()["resident_bytes"], 3 * PAGE)
            os.kill(writer, signal.SIGKILL)
        self.assertTrue(running.wait_for_state("ready"))
        self.assertEqual(1, running.device()["writer_losses"])
        running.ask("evict", "--all")
        self.assertTrue(daemon.wait_until(lambda: running.descriptors() <= before),
                        f"{before} descriptors before, {running.descriptors()} after")
        self.assertEqual(13 * TIER_PAGE, self.tier(running)["used_bytes"])
        self.load(running, path)
        self.is_right(running, path)
        self.assertEqual(0, running.stop())

    @unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
    def test_a_host_buffer_that_needs_the_room_takes_it(self) -> None:
        running = self.start("128MiB")
        path = self.checkpoint(running)
        self.load(running, path)
        self.assertEqual(13 * TIER_PAGE, self.tier(running)["used_bytes"])
        with penstock.connect(socket=str(running.socket)) as service:
            buffer = service.host_buffer(200 * MIB)
            buffer.grow(100 * MIB)
            host = running.ask("status")["host"]
            self.assertEqual(100 * MIB, host["buffer_bytes"])
            self.assertLessEqual(host["tier"]["used_bytes"], 28 * MIB)
            self.assertLessEqual(host["locked_bytes"], 128 * MIB)
            # Never a victim: what is left to the tier is all that it gets.
            running.ask("evict", "--all")
            self.load(running, path)
            self.assertLessEqual(self.tier(running)["used_bytes"], 28 * MIB)
            with self.assertRaises(penstock.ExhaustedError):
                buffer.grow(150 * MIB)
            buffer.truncate(0)
            buffer.close()
        running.ask("evict", "--all")
        self.load(running, path)
        self.assertEqual(13 * TIER_PAGE, self.tier(running)["used_bytes"])
        self.is_right(running, path)

    def test_metrics_show_it(self) -> None:
        running = self.start()
        path = self.checkpoint(running)
        self.load(running, path)
        with urllib.request.urlopen(f"http://{running.ask('status')['metrics']['address']}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        self.assertIn('penstock_budget_bytes{pool="host_tier"} 268435456', page)
        self.assertIn('penstock_tier_bytes{state="held"} 109051904', page)
        self.assertRegex(page, r'penstock_checkpoint_bytes\{checkpoint="[0-9a-f]{12}",place="locked_host"\} 1006')

    @unittest.skipIf(daemon.SANITIZED, "requires a build without sanitizers, whose memory is not all the service's")
    def test_two_gpus_share_one_budget_that_is_no_more_than_the_cgroup_allows(self) -> None:
        cgroup = LimitedCgroup.make(768 * MIB)
        if isinstance(cgroup, str):
            self.skipTest(cgroup)
        self.enterContext(cgroup)
        running = self.start("4GiB", words=cgroup.enter(), PENSTOCK_FAKE_DEVICES="2")
        host = running.ask("status")["host"]
        self.assertLessEqual(host["locked_budget_bytes"], 768 * MIB)
        self.assertLessEqual(host["tier"]["budget_bytes"], 768 * MIB)
        devices = [device["id"] for device in running.ask("status")["devices"]]
        self.assertEqual(2, len(devices))
        for seed in (1, 2):
            path = self.checkpoint(running, f"m{seed}", seed=seed)
            for device in devices:
                self.load(running, path, "--device", device)
        # One copy of each for both, and the fake GPUs' own memory, which is in the cgroup, too.
        status = running.ask("status")
        self.assertEqual(2 * 13 * TIER_PAGE, status["host"]["tier"]["used_bytes"])
        self.assertEqual(0, status["devices"][1]["read_bytes"])
        self.assertEqual(0, cgroup.kills())
        running.ask("evict", "--all")
        self.is_right(running, path)
        self.assertEqual(0, running.stop())

    @unittest.skipIf(daemon.SANITIZED, "requires a build without sanitizers, whose memory is not all the service's")
    def test_pressure_takes_it_and_its_end_gives_it_back(self) -> None:
        """There are no frames on this node that could go: without the tier's part the kernel kills."""
        cgroup = LimitedCgroup.make(512 * MIB)
        if isinstance(cgroup, str):
            self.skipTest(cgroup)
        self.enterContext(cgroup)
        running = self.start("128MiB", words=cgroup.enter())
        path = self.checkpoint(running)
        self.load(running, path)
        running.ask("evict", "--all")
        self.assertEqual(13 * TIER_PAGE, self.tier(running)["used_bytes"])
        # What the fake GPU had goes with its pages; the governor looks four times a second.
        self.assertTrue(daemon.wait_until(lambda: running.ask("status")["pressure"]["room_bytes"] > 300 * MIB))
        pressure = running.ask("status")["pressure"]
        self.assertEqual(("calm", 0), (pressure["level"], pressure["falls"]))

        # More than there is, by less than the tier holds.
        size = pressure["room_bytes"] // MIB * MIB + 24 * MIB
        taker = [*cgroup.enter(), sys.executable, str(Path(__file__).with_name("take_memory.py")), str(size), str(256 * MIB)]
        with subprocess.Popen(taker, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as neighbour:
            assert neighbour.stdin and neighbour.stdout
            self.assertTrue(neighbour.stdout.readline(), "the neighbour was killed")
            squeezed = self.tier(running)["used_bytes"]
            self.assertLessEqual(squeezed, 13 * TIER_PAGE - 24 * MIB)
            self.assertGreater(running.ask("status")["pressure"]["falls"], 0)
            neighbour.stdin.close()
            self.assertEqual(0, neighbour.wait())
        self.assertEqual(0, cgroup.kills())

        grown = squeezed + 3 * TIER_PAGE
        self.assertTrue(daemon.wait_until(lambda: self.tier(running)["budget_bytes"] >= grown, 30))
        self.load(running, path)
        self.assertGreaterEqual(self.tier(running)["used_bytes"], grown)
        self.is_right(running, path)
        self.assertEqual(0, running.stop())

    def test_a_gpu_that_shares_the_hosts_memory_has_no_second_copy(self) -> None:
        running = self.start(PENSTOCK_FAKE_INTEGRATED="1")
        path = self.checkpoint(running)
        self.load(running, path)
        running.ask("evict", "--all")
        again = self.load(running, path)
        self.assertGreater(again["read_bytes"], 0)
        host = running.ask("status")["host"]
        self.assertIsNone(host["tier"])
        self.assertEqual(0, host["locked_bytes"])
        self.is_right(running, path)

    def test_without_locked_memory_there_is_none(self) -> None:
        running = self.start("0")
        self.load(running, self.checkpoint(running))
        self.assertIsNone(running.ask("status")["host"]["tier"])


class HostTierOnHip(HostTier):
    vendor = "hip"


if __name__ == "__main__":
    unittest.main()
