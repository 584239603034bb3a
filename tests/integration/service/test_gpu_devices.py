# SPDX-License-Identifier: Apache-2.0
"""GPUs as devices: the service on fake drivers, with the processes that fill their memory killed, stopped and broken."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import daemon
import processes

MIB = 1 << 20
PAGE = 32 * MIB
VENDORS = ("cuda", "hip")
MEMORY_CALLS = {"cuda": "cuMem", "hip": "hipMem"}
DEVICE_GONE = {"cuda": 46, "hip": 4}  # HIP has no word for "unavailable".


def fakes(vendor: str) -> Path:
    return daemon.BUILD / "fakes" / vendor


class GpuDaemon(daemon.Daemon):
    """On a fake driver; `more` are further variables of its environment."""

    def __init__(self, vendor: str, extra: str = "", wait: bool = True, words: tuple[str, ...] = (),
                 program: Path = daemon.PENSTOCKD, **more: str) -> None:
        environment = {"LD_LIBRARY_PATH": str(fakes(vendor)), "PENSTOCK_FAKE_DEVICE_BYTES": "1GiB",
                       "PENSTOCK_FAKE_STREAM_DELAY_US": "20", **more}
        self.extra_text = extra
        self.vendor = vendor
        super().__init__(environment=environment, wait=wait, words=words, program=program)

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\n[metrics]\nlisten = "127.0.0.1:0"\n'
                + self.extra_text)

    def writers(self) -> list[int]:
        """The processes that the service started and has not collected."""
        return processes.children_of(self.process.pid)

    def wait_for_state(self, state: str) -> bool:
        return daemon.wait_until(lambda: self.device()["state"] == state, 30)


class Client:
    """A gpu_program: a line says what to do, and one line answers."""

    def __init__(self, program: Path, running: GpuDaemon, path: Path) -> None:
        self.process = subprocess.Popen([program, running.vendor, running.socket, path], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=running.environment)

    def __call__(self, words: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def needs_fakes(case: unittest.TestCase, vendor: str) -> None:
    if not any(fakes(vendor).glob("lib*.so*")):
        case.skipTest(f"requires the fake drivers in {fakes(vendor)}")


def needs_device_code(case: unittest.TestCase) -> None:
    """Without it no kernel is launched: pages are copied to the host and summed up there."""
    if not (daemon.BUILD / "generated/device_code/cuda.fatbin").exists():
        case.skipTest("requires device code: nvcc, and a build without sanitizers")


class OnFakes(unittest.TestCase):
    def start(self, vendor: str, extra: str = "", **more: str) -> GpuDaemon:
        needs_fakes(self, vendor)
        return self.enterContext(GpuDaemon(vendor, extra, **more))

    def load(self, running: GpuDaemon, tensors: int = 24) -> Path:
        path = running.folder / "m.safetensors"
        daemon.write_checkpoint(path, tensors=tensors)
        answer = running.ask("load", str(path))
        self.assertNotIn("error", answer)
        self.assertGreaterEqual(answer["bytes"], tensors * 4 * MIB)
        return path


class GpuDevices(OnFakes):
    def test_each_vendor_is_shown_and_loads(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor), GpuDaemon(vendor) as running:
                needs_fakes(self, vendor)
                devices = running.ask("status")["devices"]
                self.assertEqual([vendor], [device["kind"] for device in devices])
                self.assertRegex(devices[0]["id"], rf"^{vendor}-[0-9a-f]{{8}}$")
                self.assertEqual("ready", devices[0]["state"])
                self.assertEqual(PAGE, devices[0]["page_bytes"])
                self.load(running)
                self.assertEqual(3 * PAGE, running.device()["used_bytes"])
                self.assertEqual(3 * PAGE, running.ask("evict", "--all")["evicted_bytes"])
                self.assertEqual(1, len(running.writers()))
                self.assertEqual(0, running.stop())

    def test_nobody_becomes_a_client_of_mps(self) -> None:
        # Where an operator set a place for it, and in the driver's own; the fake aborts whoever would join.
        with tempfile.TemporaryDirectory(prefix="penstock-mps-") as folder:
            for place in (folder, "/tmp/nvidia-mps"):
                with self.subTest(place):
                    running = self.start("cuda", CUDA_MPS_PIPE_DIRECTORY=place, CUDA_MPS_LOG_DIRECTORY=folder)
                    self.load(running)
                    (writer,) = running.writers()
                    variables = Path(f"/proc/{writer}/environ").read_bytes().split(b"\0")
                    self.assertIn(b"CUDA_MPS_LOG_DIRECTORY=" + folder.encode(), variables)
                    self.assertFalse([one for one in variables if one == b"CUDA_MPS_PIPE_DIRECTORY=" + place.encode()])

    def test_no_driver_library_is_linked(self) -> None:
        for program in (daemon.PENSTOCKD, daemon.BUILD / "bin/penstock-writer"):
            linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(linked, "libcuda|amdhip|nvidia")

    def test_a_killed_writer_is_replaced_and_nothing_is_left_behind(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor)
                path = self.load(running)
                # Of which some belong to a client that has just left.
                before = running.descriptors()
                for death in range(3):
                    # What the kernel lists of children it may leave out while one of many threads starts or ends.
                    self.assertTrue(daemon.wait_until(lambda: len(running.writers()) == 1))
                    (writer,) = running.writers()
                    os.kill(writer, signal.SIGKILL)
                    if not daemon.wait_until(lambda lost=death + 1: running.device()["writer_losses"] == lost):
                        self.fail(f"writer {writer} was killed, death {death + 1}: {running.story()}")
                    self.assertTrue(running.wait_for_state("ready"))
                    self.assertEqual(3 * PAGE, running.device()["resident_bytes"], "what is full stays")
                    running.ask("evict", "--all")
                    self.assertNotIn("error", running.ask("load", str(path)))
                    self.assertTrue(daemon.wait_until(lambda: running.descriptors() <= before),
                                    f"{before} descriptors before, {running.descriptors()} after")
                self.assertTrue(daemon.wait_until(lambda: len(running.writers()) == 1))
                kinds = [entry["kind"] for entry in running.ask("explain")["decisions"]]
                self.assertIn("device", kinds)

    def test_writers_that_keep_dying_are_a_quarantine_that_stops_nothing_else(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                # Each writer's context dies at its first copy; the owner of the memory copies nothing.
                running = self.start(vendor, extra='[device.host]\nenabled = "on"\n', PENSTOCK_FAKE_FAULTS="copy:700!@8+")
                path = running.folder / "m.safetensors"
                daemon.write_checkpoint(path)
                for _ in range(6):
                    answer = running.ask("load", str(path))
                    self.assertEqual("device_unhealthy", answer.get("error", {}).get("kind"), answer)
                    if running.device()["state"] == "quarantined":
                        break
                    running.wait_for_state("ready")
                self.assertTrue(running.wait_for_state("quarantined"))
                # The last one has said that it is over, and ends by itself.
                self.assertTrue(daemon.wait_until(lambda: running.writers() == []))
                self.assertEqual(0, running.device()["used_bytes"])
                self.assertIn("quarantined", running.log())
                self.assertNotIn("error", running.ask("load", str(path), "--device", "host"))
                self.assertEqual(0, running.stop())

    def test_what_a_writer_says_is_in_the_log_with_its_device(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor, extra='[log]\nformat = "json"\n', PENSTOCK_FAKE_FAULTS="copy:700!@8")
                path = running.folder / "m.safetensors"
                daemon.write_checkpoint(path)
                running.ask("load", str(path))
                self.assertTrue(daemon.wait_until(lambda: "failed with 700" in running.log()), running.log())
                messages = [json.loads(line)["message"] for line in running.log().splitlines()]
                said = re.compile(rf"device {vendor}-[0-9a-f]{{8}}: its writer says: .+ failed with 700")
                self.assertTrue(any(said.fullmatch(one) for one in messages), messages)

    def test_a_missing_writer_is_named_with_its_path(self) -> None:
        needs_fakes(self, "cuda")
        with tempfile.TemporaryDirectory(prefix="penstock-alone-") as folder:
            alone = Path(folder) / "penstockd"
            shutil.copy(daemon.PENSTOCKD, alone)
            running = self.enterContext(GpuDaemon("cuda", program=alone))
            self.assertEqual(["host"], [device["kind"] for device in running.ask("status")["devices"]])
            self.assertIn(f"is not used: {folder}/penstock-writer can't be opened: No such file", running.log())
            self.assertIn("install the package whole", running.log())

    def test_a_gpu_that_fails_its_self_test_is_not_used(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor, extra='[device.host]\nenabled = "on"\n',
                                     PENSTOCK_FAKE_FAULTS=f"{MEMORY_CALLS[vendor]}Map:999")
                path = running.folder / "m.safetensors"
                daemon.write_checkpoint(path)
                self.assertEqual("device_unhealthy", running.ask("load", str(path))["error"]["kind"])
                self.assertTrue(running.wait_for_state("quarantined"))
                said = running.ask("load", str(path))["error"]
                self.assertIn(f"{vendor}-", said["message"])
                self.assertIn("penstock explain", said["hint"])
                checks = running.ask("doctor")["checks"]
                self.assertEqual("degraded", next(one["state"] for one in checks if one["name"] == "service"))
                self.assertIn(f"failed its self-test: map: {MEMORY_CALLS[vendor]}Map answered 999", running.log())
                self.assertNotIn("error", running.ask("load", str(path), "--device", "host"))

    def test_a_writer_that_works_again_ends_the_quarantine(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                # Each writer's context dies at a later copy: none lives through a load, all of them pass their self-test.
                running = self.start(vendor, PENSTOCK_FAKE_FAULTS="copy:700!@8+")
                path = running.folder / "m.safetensors"
                daemon.write_checkpoint(path)
                self.assertTrue(daemon.wait_until(lambda: running.ask("load", str(path)).get("error") is not None
                                                  and running.device()["state"] == "quarantined", 30))
                # The next writer is on probation: it starts, passes its self-test, and is ready.
                self.assertTrue(running.wait_for_state("ready"))
                self.assertEqual(1, len(running.writers()))

    def test_a_lost_gpu_that_comes_back_is_used_again(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                # The fourth frame finds the device gone, and so does the first attempt to use it again.
                gone = f"{MEMORY_CALLS[vendor]}Create:{DEVICE_GONE[vendor]}"
                running = self.start(vendor, PENSTOCK_FAKE_DEVICES="2", PENSTOCK_FAKE_FAULTS=f"{gone}@4;{gone}@5")
                program = daemon.BUILD / "tests/bin/gpu_program"
                first = self.load(running)
                client = self.enterContext(Client(program, running, first)) if program.exists() else None
                if client:
                    self.assertEqual(["done"] * 3, [client("driver"), client("open"), client(f"pin 0 {PAGE}")])
                second = running.folder / "n.safetensors"
                daemon.write_checkpoint(second, seed=2)
                self.assertEqual("device_unhealthy", running.ask("load", str(second)).get("error", {}).get("kind"))
                self.assertTrue(daemon.wait_until(lambda: running.device()["resident_bytes"] == 0), "what it held is lost")
                self.assertIn("what it held is lost", running.log())
                self.assertEqual("ready", running.ask("status")["devices"][1]["state"])
                self.assertTrue(running.wait_for_state("ready"))
                self.assertNotIn("error", running.ask("load", str(second)))
                if client:
                    # Its session has ended; the calls after that have a reason, until its table is open again by itself.
                    answers: list[str] = []

                    def pins() -> bool:
                        answers.append(client(f"pin {PAGE} {PAGE}"))
                        return answers[-1] == "done"

                    self.assertTrue(daemon.wait_until(pins, 20), answers)
                    self.assertTrue(all(one.startswith(("device_unhealthy", "disconnected")) for one in answers[:-1]), answers)
                    self.assertEqual(["done", "same"], [client(f"copy {PAGE} {PAGE}"), client("landed")])
                states = [one["reason"] for one in running.ask("explain")["decisions"] if one["kind"] == "device"]
                # The loss of its writer may be told before, and that another one works.
                self.assertIn("quarantined", states)
                self.assertEqual("ready", states[-1])
                self.assertEqual(0, running.stop())

    def test_a_service_that_is_killed_takes_its_writer_along(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor)
                self.load(running)  # The writer has begun: it has asked to die with the service.
                (writer,) = running.writers()
                pidfd = os.pidfd_open(writer)
                try:
                    os.kill(writer, signal.SIGSTOP)
                    running.process.kill()
                    running.process.wait()
                    self.assertTrue(daemon.wait_until(lambda: processes.has_ended(pidfd)))
                finally:
                    os.close(pidfd)

    @unittest.skipIf(daemon.SANITIZED, "requires a build without sanitizers, which look at types through pipes of their own")
    def test_a_service_with_few_descriptors_holds_what_it_can(self) -> None:
        needs_fakes(self, "hip")
        running = self.enterContext(GpuDaemon("hip", extra='[device.hip]\npage_bytes = "2MiB"\n',
                                              words=("prlimit", "--nofile=112:112")))
        path = running.folder / "m.safetensors"
        daemon.write_sparse_checkpoint(path, tensors=64, tensor_bytes=4 * MIB)
        before = running.descriptors()
        # A prefetch: as much as there is room for.
        answer = running.ask("load", str(path))
        self.assertLess(0, answer["resident_bytes"])
        self.assertLess(answer["resident_bytes"], answer["bytes"])
        self.assertEqual("fd_limit", answer["incomplete"]["kind"], answer)
        self.assertIn("LimitNOFILE", answer["incomplete"]["hint"])
        self.assertLessEqual(running.descriptors(), 112)
        self.assertTrue(running.is_serving())
        running.ask("evict", "--all")
        self.assertEqual(0, running.device()["used_bytes"])
        # The checkpoint stays known, with its file.
        self.assertTrue(daemon.wait_until(lambda: running.descriptors() <= before + 6),
                        f"{before} before, {running.descriptors()} after")

    def test_a_load_that_is_not_whole_says_which_limit_it_met(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor, extra=f'[device.{vendor}]\npage_bytes = "2MiB"\ncapacity = "16MiB"\n')
                path = running.folder / "m.safetensors"
                daemon.write_sparse_checkpoint(path, tensors=16, tensor_bytes=2 * MIB)
                answer = running.ask("load", str(path))
                self.assertLess(answer["resident_bytes"], answer["bytes"])
                self.assertEqual("never_fits", answer["incomplete"]["kind"], answer)
                self.assertIn("room for 16.0 MiB", answer["incomplete"]["message"])
                self.assertIn(f"capacity of [device.{vendor}]", answer["incomplete"]["hint"])
                said = subprocess.run([daemon.PENSTOCK, "load", str(path)], env=running.environment, capture_output=True,
                                      text=True, check=True).stdout
                self.assertIn("not all of it is resident: ", said)
                self.assertIn("  remedy: raise capacity", said)
                small = running.folder / "n.safetensors"
                daemon.write_sparse_checkpoint(small, tensors=2, tensor_bytes=2 * MIB)
                running.ask("evict", "--all")
                self.assertIsNone(running.ask("load", str(small))["incomplete"])

    def test_a_gpu_that_is_turned_off_is_not_used(self) -> None:
        running = self.start("cuda", extra='[device.cuda]\nenabled = "off"\n')
        self.assertEqual(["host"], [device["kind"] for device in running.ask("status")["devices"]])

    def test_several_gpus_have_a_writer_each(self) -> None:
        running = self.start("cuda", PENSTOCK_FAKE_DEVICES="3", PENSTOCK_FAKE_DEVICE_BYTES="1GiB")
        devices = running.ask("status")["devices"]
        self.assertEqual(3, len({device["id"] for device in devices}))
        self.assertEqual(3, len(running.writers()))
        path = running.folder / "m.safetensors"
        daemon.write_checkpoint(path)
        for device in devices:
            self.assertNotIn("error", running.ask("load", str(path), "--device", device["id"]))


if __name__ == "__main__":
    unittest.main()
