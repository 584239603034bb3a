# SPDX-License-Identifier: Apache-2.0
"""Whole copies of tables on GPUs that can't share memory: counted by the service, and gone with whoever made them."""

from __future__ import annotations

import unittest
from typing import Any

from test_gpu_clients import MIB, PAGE, PROGRAM, Program, daemon

PAGES = 12  # Of host memory: the file, and its header.
# Without virtual memory management, and where a freed frame stays in use.
UNSHARED = (("cuda", {"PENSTOCK_FAKE_NO_VMM": "1"}), ("hip", {"PENSTOCK_FAKE_HIP_VERSION": "7.2"}))


class CopyDaemon(daemon.Daemon):
    """Its one GPU is none of its devices, and has room for two copies of the file."""

    def __init__(self, vendor: str, more: dict[str, str]) -> None:
        self.vendor = vendor
        super().__init__(environment={"LD_LIBRARY_PATH": str(daemon.BUILD / "fakes" / vendor),
                                      "PENSTOCK_FAKE_DEVICE_BYTES": "64MiB", "PENSTOCK_FAKE_STREAM_DELAY_US": "20",
                                      **more})
        self.file = self.folder / "m.safetensors"
        daemon.write_checkpoint(self.file, tensors=24, tensor_bytes=MIB)

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\nrevoke_deadline = "300ms"\n'
                f'[metrics]\nlisten = ""\n[device.host]\npage_bytes = "2MiB"\ncapacity = "128MiB"\n')

    def copies(self) -> int:
        (gpu,) = self.ask("status")["unshared"]
        found: int = gpu["copies_bytes"]
        return found

    def of(self, program: Program) -> dict[str, Any]:
        (client,) = (one for one in self.ask("status")["clients"] if one["pid"] == program.process.pid)
        found: dict[str, Any] = client.get("kinds", {})
        return found


class TableCopies(unittest.TestCase):
    def setUp(self) -> None:
        if not PROGRAM.exists():
            self.skipTest(f"requires {PROGRAM}")

    def serve(self, vendor: str, more: dict[str, str]) -> CopyDaemon:
        if not any((daemon.BUILD / "fakes" / vendor).glob("lib*.so*")):
            self.skipTest("requires the fake drivers")
        service = CopyDaemon(vendor, more)
        # All processes see the same GPU.
        service.environment["PENSTOCK_FAKE_LEDGER"] = str(service.folder / "ledger")
        return self.enterContext(service)

    def open(self, service: CopyDaemon) -> Program:
        program = self.enterContext(Program(service))
        self.assertEqual("done", program("open", service.vendor))
        return program

    def test_what_one_client_has_is_not_promised_to_another(self) -> None:
        for vendor, more in UNSHARED:
            with self.subTest(vendor):
                service = self.serve(vendor, more)
                self.assertEqual(0, service.copies())
                one, two = self.open(service), self.open(service)
                each = service.copies() // 2
                self.assertGreater(each, 24 * MIB)
                (gpu,) = service.ask("status")["unshared"]
                self.assertEqual((vendor, 64 * MIB, 2), (gpu["kind"], gpu["total_bytes"], gpu["clients"]))
                self.assertEqual({"copies": {"devices": {gpu["id"]: each}}}, service.of(one))
                self.assertEqual({"copies": {"devices": {gpu["id"]: each}}}, service.of(two))
                three = self.enterContext(Program(service))
                calls = three("calls", "cuMemAlloc" if vendor == "cuda" else "hipMalloc")
                answer = three("open", vendor)
                self.assertRegex(answer, "exhausted: .*copies of tables take .* are left")
                self.assertEqual(calls, three("calls", "cuMemAlloc" if vendor == "cuda" else "hipMalloc"),
                                 "the driver was not asked")
                self.assertEqual({}, service.of(three))
                # What is given back is promised again.
                self.assertEqual("done", one("close"))
                self.assertTrue(daemon.wait_until(lambda: service.copies() == each))
                self.assertEqual("done", three("open", vendor))
                self.assertEqual("done", three("pin", 0, PAGES * PAGE))
                self.assertEqual("done", three("copy", PAGE, 10 * PAGE))
                self.assertEqual("same", three("landed"))

    def test_closing_waits_for_no_device_work(self) -> None:
        for vendor, more in UNSHARED:
            with self.subTest(vendor):
                service = self.serve(vendor, more)
                program = self.open(service)
                counted, used = service.copies(), program("used")
                self.assertEqual("done", program("pin", 0, PAGES * PAGE))
                self.assertEqual("0", program("hold", PAGE, 6 * PAGE))
                self.assertEqual("done", program("unpin", 0, PAGES * PAGE))
                self.assertEqual("done", program("close"), "the kernel waits for what comes after this")
                self.assertEqual((counted, used), (service.copies(), program("used")))
                self.assertEqual("done", program("revokes"))
                self.assertEqual((counted, used), (service.copies(), program("used")))
                self.assertEqual("0", program("let-go"), "it reads the copy at its end")
                self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done" and service.copies() == 0))
                self.assertLess(int(program("used")), int(used))

    def test_no_copy_is_freed_during_a_capture(self) -> None:
        for vendor, more in UNSHARED:
            with self.subTest(vendor):
                service = self.serve(vendor, more)
                program = self.open(service)
                counted = service.copies()
                self.assertEqual("done", program("pin", 0, PAGES * PAGE))
                self.assertEqual("0", program("capture"))
                self.assertEqual("done", program("unpin", 0, PAGES * PAGE))
                free = "cuMemFree" if vendor == "cuda" else "hipFree"
                frees = program("calls", free)
                self.assertEqual("done", program("close"))
                self.assertEqual(("done", frees), (program("revokes"), program("calls", free)))
                self.assertEqual(counted, service.copies())
                self.assertEqual("0", program("captured"), "nothing has spoilt it")
                self.assertEqual("done", program("idle"))
                self.assertTrue(daemon.wait_until(lambda: service.copies() == 0))

    def test_the_end_of_a_client_does_not_wait_for_ever(self) -> None:
        for vendor, more in UNSHARED:
            with self.subTest(vendor):
                service = self.serve(vendor, more)
                program = self.open(service)
                used = int(program("used"))
                self.assertEqual("done", program("pin", 0, PAGES * PAGE))
                self.assertEqual("0", program("hold", PAGE, 6 * PAGE))
                self.assertEqual("done", program("unpin", 0, PAGES * PAGE))
                self.assertEqual("done", program("disconnect"), "the kernel waits for what comes after this")
                self.assertGreaterEqual(int(program("used")), used)
                self.assertEqual("0", program("let-go"))
                self.assertEqual("done", program("connect"))
                self.assertEqual("done", program("revokes"))
                self.assertLess(int(program("used")), used)

    def test_a_killed_client_gives_everything_back(self) -> None:
        for vendor, more in UNSHARED:
            with self.subTest(vendor):
                service = self.serve(vendor, more)
                other = self.enterContext(Program(service))
                empty = int(other("used"))
                dead = self.open(service)
                self.assertEqual("done", dead("pin", 0, PAGES * PAGE))
                self.assertGreater(int(other("used")), empty + 24 * MIB)
                dead.kill()
                self.assertTrue(daemon.wait_until(lambda: int(other("used")) == empty and service.copies() == 0))
                self.assertTrue(daemon.wait_until(lambda: service.device()["pinned_bytes"] == 0))

    def test_a_forked_child_is_told_that_it_has_no_copy(self) -> None:
        for vendor, more in UNSHARED:
            with self.subTest(vendor):
                service = self.serve(vendor, more)
                parent = self.open(service)
                self.assertEqual("done", parent("pin", 0, PAGES * PAGE))
                counted, used = service.copies(), parent("used")
                answers = parent("in-a-child").split("; ")
                self.assertEqual(2, len(answers), answers)
                for answer in answers:
                    self.assertIn("forked", answer)
                # Its end took nothing along.
                self.assertEqual((counted, used), (service.copies(), parent("used")))
                self.assertEqual("done", parent("copy", PAGE, 10 * PAGE))
                self.assertEqual("same", parent("landed"))

    def test_the_next_service_counts_what_is_there(self) -> None:
        service = self.serve(*UNSHARED[0])
        program = self.open(service)
        self.assertEqual("done", program("pin", 0, PAGES * PAGE))
        counted = service.copies()
        service.process.kill()
        service.process.wait()
        service.log_path.unlink()
        service.start()
        self.assertEqual(0, service.copies())
        self.assertEqual("done", program("open", "cuda"))
        self.assertTrue(daemon.wait_until(lambda: service.copies() == counted))
        self.assertEqual("done", program("copy", PAGE, 10 * PAGE))
        self.assertEqual("same", program("landed"))


if __name__ == "__main__":
    unittest.main()
