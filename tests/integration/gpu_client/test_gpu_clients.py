# SPDX-License-Identifier: Apache-2.0
"""Programs that use pages on a GPU: two processes, one copy, revokes while device work runs, deaths and a restart."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "service"))

import daemon  # noqa: E402
import processes  # noqa: E402

MIB = 1 << 20
PAGE = 2 * MIB
VENDORS = ("cuda", "hip")
PROGRAM = daemon.BUILD / "tests/bin/gpu_program"


class GpuDaemon(daemon.Daemon):
    """On a fake driver, whose memory all processes of the test share."""

    def __init__(self, vendor: str, pages: int = 64, cooperative_deadline: str = "30s",
                 words: tuple[str, ...] = (), more: dict[str, str] | None = None) -> None:
        self.vendor, self.pages, self.cooperative_deadline = vendor, pages, cooperative_deadline
        super().__init__(words=words, environment={"LD_LIBRARY_PATH": str(daemon.BUILD / "fakes" / vendor),
                                      "PENSTOCK_FAKE_DEVICE_BYTES": "1GiB", "PENSTOCK_FAKE_STREAM_DELAY_US": "20",
                                      **(more or {})})
        self.file = self.folder / "m.safetensors"
        daemon.write_checkpoint(self.file, tensors=24, tensor_bytes=MIB)

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\nrevoke_deadline = "300ms"\n'
                f'cooperative_deadline = "{self.cooperative_deadline}"\n'
                f'[metrics]\nlisten = ""\n[device.{self.vendor}]\npage_bytes = "2MiB"\n'
                f'capacity = "{self.pages * PAGE}"\n')


class Program:
    """One process with a GPU: a line says what to do, and one line answers."""

    def __init__(self, service: GpuDaemon, driver: bool = True, words: tuple[str, ...] = (), **more: str) -> None:
        self.process = subprocess.Popen([*words, PROGRAM, service.vendor, service.socket, service.file], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**service.environment, **more})
        if driver:
            assert self("driver") == "done"

    def begin(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def end(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __call__(self, *words: object) -> str:
        self.begin(*words)
        return self.end()

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class GpuPrograms(unittest.TestCase):
    def setUp(self) -> None:
        if not PROGRAM.exists():
            self.skipTest(f"requires {PROGRAM}")

    def serve(self, vendor: str, pages: int = 64, cooperative_deadline: str = "30s") -> GpuDaemon:
        if not any((daemon.BUILD / "fakes" / vendor).glob("lib*.so*")):
            self.skipTest("requires the fake drivers")
        return self.enterContext(GpuDaemon(vendor, pages, cooperative_deadline))

    def start(self, service: GpuDaemon, driver: bool = True, words: tuple[str, ...] = (), **more: str) -> Program:
        return self.enterContext(Program(service, driver, words, **more))

    def open(self, service: GpuDaemon, words: tuple[str, ...] = (), **more: str) -> Program:
        program = self.start(service, words=words, **more)
        self.assertEqual("done", program("open"))
        return program

    def read(self, program: Program, first: int, count: int = 1) -> str:
        self.assertEqual("done", program("copy", first * PAGE, count * PAGE))
        return program("landed")


class GpuClients(GpuPrograms):
    def test_two_processes_share_one_copy(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                one, two = self.open(service), self.open(service)
                for program in (one, two):
                    calls = "cuMemSetAccess" if vendor == "cuda" else "hipMemSetAccess"
                    before = int(program("calls", calls))
                    self.assertEqual("done", program("pin", PAGE, 10 * PAGE))
                    self.assertEqual("same", self.read(program, 1, 10))
                    self.assertLessEqual(int(program("calls", calls)) - before, 10)
                    if program is two:
                        self.assertEqual(1, int(program("calls", calls)) - before, "pages that are there are one run")
                self.assertEqual(10 * PAGE, service.device()["resident_bytes"])
                self.assertEqual("done", two("unpin", PAGE, 10 * PAGE))

    def test_a_long_run_that_is_there_is_made_accessible_by_one_call(self) -> None:
        pages = 140  # More than one message can bring.
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=pages + 8)
                daemon.write_sparse_checkpoint(service.file, tensors=pages, tensor_bytes=PAGE)
                one, two = self.open(service), self.open(service)
                self.assertEqual("done", one("pin", 0, pages * PAGE))
                names = (("cuMemMap", "cuMemSetAccess") if vendor == "cuda" else ("hipMemMap", "hipMemSetAccess"))
                before = [int(two("calls", name)) for name in names]
                self.assertEqual("done", two("pin", 0, pages * PAGE))
                after = [int(two("calls", name)) for name in names]
                mapped, made_accessible = (now - then for now, then in zip(after, before))
                self.assertEqual(pages, mapped)
                self.assertEqual(1, made_accessible, "whatever order they came in")
                self.assertEqual("same", self.read(two, 0, pages))
                self.assertEqual("done", two("unpin", 0, pages * PAGE))

    def test_a_shared_page_can_not_be_written(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                one, two = self.open(service, PENSTOCK_FAKE_STICKY_FAULTS="1"), self.open(service)
                for program in (one, two):
                    self.assertEqual("done", program("pin", PAGE, PAGE))
                self.assertEqual("700", one("write", PAGE))
                self.assertEqual("same", self.read(two, 1), "only the writer has lost its context")

    def test_a_private_page_can_be_written_by_one(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                one, two = self.open(service), self.open(service)
                for program in (one, two):
                    self.assertEqual("done", program("pin", PAGE, 2 * PAGE))
                self.assertEqual("done", one("private", PAGE, PAGE))
                self.assertEqual("same", self.read(one, 1, 2), "it begins as a copy")
                self.assertEqual("done", one("write", PAGE))
                self.assertEqual("different", self.read(one, 1))
                self.assertEqual("same", self.read(two, 1))
                self.assertIn(f"private {PAGE}", one("residency"))

    def test_a_revoke_waits_for_device_work(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8)
                # Its copies begin late; a page that is unmapped before ends the process.
                slow, other = self.open(service, PENSTOCK_FAKE_STREAM_DELAY_US="300000"), self.open(service)
                self.assertEqual("done", slow("pin", PAGE, 6 * PAGE))
                self.assertEqual("done", slow("copy", PAGE, 6 * PAGE))
                self.assertEqual("done", slow("unpin", PAGE, 6 * PAGE))
                other.begin("pin", 7 * PAGE, 4 * PAGE)
                # Each call of the program is a point at which it may give pages back.
                self.assertTrue(daemon.wait_until(
                    lambda: slow("revokes") == "done" and f"mapped {6 * PAGE} " not in slow("residency")))
                self.assertEqual("done", other.end())
                self.assertEqual("same", slow("landed"))
                self.assertEqual("same", self.read(other, 7, 4))

    def test_a_revoke_leaves_pages_to_a_running_kernel(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8, cooperative_deadline="100ms")
                busy, other = self.open(service), self.open(service)
                self.assertEqual("done", busy("pin", PAGE, 6 * PAGE))
                self.assertEqual("0", busy("hold", PAGE, 6 * PAGE))
                self.assertEqual("done", busy("unpin", PAGE, 6 * PAGE))
                other.begin("pin", 7 * PAGE, 4 * PAGE)
                self.assertTrue(daemon.wait_until(lambda: service.device()["stuck_bytes"] > 0))
                self.assertEqual("done", busy("revokes"))
                self.assertIn(f"mapped {6 * PAGE} ", busy("residency"))
                # It reads all of them at its end: the fake ends the process where one is not mapped.
                self.assertEqual("0", busy("let-go"))
                self.assertTrue(daemon.wait_until(
                    lambda: busy("revokes") == "done" and f"mapped {6 * PAGE} " not in busy("residency")))
                other.end()
                self.assertTrue(daemon.wait_until(lambda: other("pin", 7 * PAGE, 4 * PAGE) == "done"))
                self.assertEqual("same", self.read(other, 7, 4))

    def test_no_other_thread_takes_pages_from_a_program_that_says_nothing(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8, cooperative_deadline="100ms")
                silent, other = self.open(service), self.open(service)
                self.assertEqual("done", silent("pin", PAGE, 6 * PAGE))
                self.assertEqual("done", silent("unpin", PAGE, 6 * PAGE))
                other.begin("pin", 4 * PAGE, 7 * PAGE)
                # The agent has answered, and the deadline for more is over.
                self.assertTrue(daemon.wait_until(lambda: service.device()["stuck_bytes"] > 0))
                self.assertIn(f"mapped {6 * PAGE} ", silent("residency"))
                self.assertEqual("done", silent("revokes"))
                self.assertNotIn(f"mapped {6 * PAGE} ", silent("residency"))
                other.end()
                self.assertTrue(daemon.wait_until(lambda: silent("revokes") == "done"
                                                  and other("pin", 4 * PAGE, 7 * PAGE) == "done"))
                self.assertEqual("same", self.read(other, 4, 7))
                synchronize = "cuCtxSynchronize" if vendor == "cuda" else "hipDeviceSynchronize"
                self.assertEqual("0", silent("calls", synchronize))

    def test_a_capture_is_left_alone(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8, cooperative_deadline="100ms")
                graph, other = self.open(service), self.open(service)
                self.assertEqual("done", graph("pin", PAGE, 6 * PAGE))
                self.assertEqual("0", graph("capture"))
                self.assertEqual("done", graph("unpin", PAGE, 6 * PAGE))
                other.begin("pin", 4 * PAGE, 7 * PAGE)
                self.assertTrue(daemon.wait_until(lambda: service.device()["stuck_bytes"] > 0))
                self.assertEqual("done", graph("revokes"))
                self.assertIn(f"mapped {6 * PAGE} ", graph("residency"))
                self.assertEqual("0", graph("captured"), "nothing has spoilt it")
                self.assertEqual("done", graph("idle"))
                other.end()
                self.assertTrue(daemon.wait_until(lambda: other("pin", 4 * PAGE, 7 * PAGE) == "done"))
                self.assertEqual("same", self.read(other, 4, 7))

    def test_a_capture_that_nobody_told_of_is_not_spoilt(self) -> None:
        # The pages were unpinned before: what the library knows of the program's streams is older than the capture.
        calls = (("revokes",), ("pin", 7 * PAGE, PAGE), ("unpin", 0, PAGE), ("close",))
        for vendor in VENDORS:
            for call in calls:
                with self.subTest(vendor, call=call):
                    service = self.serve(vendor, pages=8, cooperative_deadline="100ms")
                    graph, other = self.open(service), self.open(service)
                    self.assertEqual("done", graph("pin", 0, 7 * PAGE))
                    self.assertEqual("done", graph("unpin", PAGE, 6 * PAGE))
                    self.assertEqual("0", graph("capture"))
                    other.begin("pin", 7 * PAGE, 4 * PAGE)
                    self.assertTrue(daemon.wait_until(lambda: service.device()["stuck_bytes"] > 0))
                    self.assertEqual("done", graph(*call))
                    self.assertEqual("0", graph("captured"), "nothing has spoilt it")
                    self.assertEqual("done", graph("idle"))
                    other.end()
                    self.assertTrue(daemon.wait_until(lambda: other("pin", 7 * PAGE, 4 * PAGE) == "done"))

    def test_private_pages_during_a_capture_are_refused_by_name(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                graph = self.open(self.serve(vendor))
                self.assertEqual("done", graph("pin", PAGE, PAGE))
                self.assertEqual("0", graph("capture"))
                self.assertIn("busy", graph("private", PAGE, PAGE))
                graph("captured")
                self.assertEqual("done", graph("private", PAGE, PAGE))

    def test_an_idle_program_gives_pages_back_by_itself(self) -> None:
        service = self.serve("cuda", pages=8)
        idle, other = self.open(service), self.open(service)
        self.assertEqual("done", idle("pin", PAGE, 6 * PAGE))
        self.assertEqual("same", self.read(idle, 1, 6))
        self.assertEqual("done", idle("unpin", PAGE, 6 * PAGE))
        self.assertEqual("done", idle("idle"))
        self.assertEqual("done", other("pin", 4 * PAGE, 7 * PAGE))
        self.assertEqual("same", self.read(other, 4, 7))

    def test_a_killed_program_leaves_its_pages_to_others(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8)
                dead, other = self.open(service), self.open(service)
                self.assertEqual("done", dead("pin", PAGE, 6 * PAGE))
                dead.kill()
                self.assertEqual("done", other("pin", 4 * PAGE, 7 * PAGE))
                self.assertEqual("same", self.read(other, 4, 7))

    def test_a_killed_writer_takes_no_page_away(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                program = self.open(service)
                self.assertEqual("done", program("pin", PAGE, 2 * PAGE))
                (writer,) = processes.children_of(service.process.pid)
                os.kill(writer, 9)
                self.assertEqual("same", self.read(program, 1, 2))
                self.assertTrue(daemon.wait_until(lambda: program("pin", 4 * PAGE, 2 * PAGE) == "done"))
                self.assertEqual("same", self.read(program, 4, 2))

    def test_pages_outlive_the_service_and_come_from_the_next_one(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                program = self.open(service)
                self.assertEqual("done", program("pin", PAGE, 2 * PAGE))
                service.process.kill()
                service.process.wait()
                self.assertEqual("same", self.read(program, 1, 2))
                service.log_path.unlink()
                service.start()
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("same", self.read(program, 1, 6))
                for _ in range(2):
                    self.assertEqual("done", program("unpin", PAGE, 2 * PAGE))
                self.assertEqual("done", program("unpin", 3 * PAGE, 4 * PAGE))
                # What the dead service had made is given up; what the new one made stays.
                self.assertTrue(daemon.wait_until(
                    lambda: program("revokes") == "done" and f"mapped {4 * PAGE} " in program("residency")))

    def test_a_program_out_of_descriptors_is_told_so_and_goes_on(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                # Raised as far as it goes.
                wide = self.open(service, words=("prlimit", "--nofile=32:4096"))
                self.assertEqual("done", wide("pin", PAGE, 11 * PAGE))
                # With 24, HIP maps what it got and goes on: the descriptors of pages that are accessible are free again.
                limit = 24 if vendor == "cuda" else 20
                narrow = self.open(service, words=("prlimit", f"--nofile={limit}:{limit}"))
                self.assertEqual("done", narrow("pin", 11 * PAGE, PAGE))
                before = narrow.descriptors()
                answer = narrow("pin", PAGE, 11 * PAGE)
                self.assertIn("fd_limit", answer)
                self.assertIn("out of descriptors", answer)
                self.assertEqual(before, narrow.descriptors())
                self.assertEqual("done", narrow("pin", PAGE, PAGE))
                self.assertEqual("same", self.read(narrow, 1))
                self.assertEqual("same", self.read(wide, 1, 11))

    @unittest.skipIf(daemon.SANITIZED, "requires a build without sanitizers, which look at types through pipes of their own")
    def test_a_service_out_of_descriptors_says_so_and_goes_on(self) -> None:
        # Without probes, as one that may have few has none. A frame of this fake holds two.
        with GpuDaemon("hip", words=("prlimit", "--nofile=400:400")) as idle:
            few = idle.descriptors() + 17
        service = self.enterContext(GpuDaemon("hip", words=("prlimit", f"--nofile={few}:{few}")))
        program = self.open(service)
        answer = program("pin", 0, 12 * PAGE)
        self.assertIn("offloaded", answer)
        self.assertIn("out of descriptors", answer)
        # The pages that it got on the way make room.
        self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done"
                                          and program("pin", PAGE, 2 * PAGE) == "done"))
        self.assertEqual("same", self.read(program, 1, 2))

    def test_a_program_without_the_driver_is_told_so(self) -> None:
        service = self.serve("cuda")
        program = self.start(service, driver=False)
        answer = program("open")
        self.assertIn("unsupported", answer)
        self.assertIn("has not loaded the driver", answer)
        self.assertEqual("done", program("driver"))
        self.assertEqual("done", program("open"))

    def test_a_gpu_that_is_hidden_is_told_so(self) -> None:
        service = self.serve("cuda")
        program = self.start(service, driver=False, CUDA_VISIBLE_DEVICES="")
        program("driver")
        self.assertIn("unsupported", program("open"))


if __name__ == "__main__":
    unittest.main()
