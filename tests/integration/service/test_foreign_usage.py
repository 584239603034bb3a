# SPDX-License-Identifier: Apache-2.0
"""What others use of a GPU: seen through fake tools of the vendors, felt by admission, budget, metrics and explain."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
import urllib.request
from pathlib import Path
from typing import Any

import daemon
import processes

MIB = 1 << 20
GIB = 1 << 30
PAGE = 32 * MIB
CAPACITY = 512 * MIB
UUID = "GPU-c04e0000-c0da-4000-0000-000000000000"
FAKES = daemon.BUILD / "fakes"


class WatchedDaemon(daemon.Daemon):
    """On a fake GPU whose usage a file tells (tests/fakes/nvml/nvml_script.hpp)."""

    def __init__(self, script: str | None, extra: str = "", vendor: str = "cuda", **more: str) -> None:
        self.vendor, self.extra_text = vendor, extra
        self.first_script = script
        libraries = [FAKES / vendor] + ([FAKES / "nvml", FAKES / "amdsmi"] if script is not None else [])
        super().__init__(environment={"LD_LIBRARY_PATH": ":".join(map(str, libraries)),
                                      "PENSTOCK_FAKE_DEVICE_BYTES": "1GiB", "PENSTOCK_FAKE_STREAM_DELAY_US": "20",
                                      **more})

    def default_config(self, capacity: str, extra: str) -> str:
        # Before the program starts.
        self.script, self.ledger = self.folder / "usage", self.folder / "ledger"
        if self.first_script is not None:
            self.show(self.first_script)
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\n[metrics]\nlisten = "127.0.0.1:0"\n'
                f'[device.{self.vendor}]\ncapacity = "{CAPACITY}"\n' + self.extra_text)

    def start(self, wait: bool = True) -> None:
        self.environment.update(PENSTOCK_FAKE_NVML=str(self.script), PENSTOCK_FAKE_AMDSMI=str(self.script),
                                PENSTOCK_FAKE_LEDGER=str(self.ledger))
        super().start(wait)

    def show(self, script: str) -> None:
        fresh = self.script.with_suffix(".new")
        fresh.write_text(script, encoding="utf-8")
        fresh.replace(self.script)

    def metrics(self) -> dict[str, float]:
        address = self.ask("status")["metrics"]["address"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:1] != "#")}

    def metric(self, name: str) -> float | None:
        found = [value for key, value in self.metrics().items() if key.startswith(name + "{")]
        return found[0] if found else None

    def admit(self, work: int, timeout: float = 0.0) -> dict[str, Any]:
        """{"work"} or {"error", "text"}, from a client that ends with its answer."""
        program = ("import json, sys, penstock\n"
                   "with penstock.connect(socket=sys.argv[1]) as service:\n"
                   "  try:\n"
                   "    with service.admit(work=int(sys.argv[2]), timeout=float(sys.argv[3])) as grant:\n"
                   "      print(json.dumps({'work': grant.work_bytes}))\n"
                   "  except penstock.PenstockError as error:\n"
                   "    print(json.dumps({'error': error.kind, 'text': str(error)}))\n")
        python = os.environ.get("PENSTOCK_PYTHON", "python3")
        done = subprocess.run([python, "-c", program, str(self.socket), str(work), str(timeout)], text=True,
                              env={**self.environment, "PYTHONPATH": str(daemon.BUILD / "python")},
                              capture_output=True, check=False, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def gpu(*lines: str, total: int = GIB) -> str:
    return "\n".join([f"device {UUID} 129 {total}", "counted 0", *lines]) + "\n"


class ForeignUsage(unittest.TestCase):
    def serve(self, script: str | None, extra: str = "", vendor: str = "cuda", **more: str) -> WatchedDaemon:
        if not any((FAKES / vendor).glob("lib*.so*")) or not (FAKES / "nvml").exists():
            self.skipTest(f"requires the fake drivers in {FAKES}")
        return self.enterContext(WatchedDaemon(script, extra, vendor, **more))

    def wait_foreign(self, service: WatchedDaemon, wanted: int | None) -> None:
        self.assertTrue(daemon.wait_until(lambda: service.device()["foreign_bytes"] == wanted, 20), service.device())

    def load(self, service: WatchedDaemon, tensors: int = 96) -> Path:
        path = service.folder / "m.safetensors"
        daemon.write_checkpoint(path, tensors=tensors)
        self.assertNotIn("error", service.ask("load", str(path)))
        return path

    def test_growth_of_others_shrinks_what_is_promised_and_resident(self) -> None:
        service = self.serve(gpu("used 0"))
        self.wait_foreign(service, 0)
        self.load(service)
        self.assertGreaterEqual(service.device()["resident_bytes"], 384 * MIB)
        self.assertEqual(0, service.device()["foreign_bytes"], "our own frames are nobody else's")
        # 512 MiB are left beside the capacity: these bite first.
        service.show(gpu(f"used {812 * MIB}", f"process 99999 {700 * MIB}"))
        self.wait_foreign(service, 812 * MIB)
        self.assertTrue(daemon.wait_until(lambda: service.device()["resident_bytes"] <= 212 * MIB, 20))
        device = service.device()
        self.assertEqual((212 * MIB, 112 * MIB), (device["admissible_bytes"], device["ghost_bytes"]))
        self.assertLessEqual(device["budget_bytes"], 212 * MIB)
        decisions = service.ask("explain")["decisions"]
        # The first change may be the writer's self-test, whose frame nobody owns up to here.
        budget = [one for one in decisions if one["kind"] == "budget"][-1]
        self.assertEqual((device["id"], "others use more of the device", 812 * MIB),
                         (budget["subject"], budget["reason"], budget["inputs"]["foreign_bytes"]))
        self.assertTrue(any(one["kind"] == "evict" and one["reason"] == "budget" for one in decisions))
        self.assertEqual(812 * MIB, service.metric("penstock_foreign_bytes"))
        self.assertEqual(112 * MIB, service.metric("penstock_ghost_bytes"))
        self.assertLessEqual(service.metric("penstock_usage_age_seconds"), 5)
        # Others go: what is promised grows again.
        service.show(gpu("used 0"))
        self.wait_foreign(service, 0)
        self.assertTrue(daemon.wait_until(lambda: service.device()["budget_bytes"] == CAPACITY, 20))

    def test_a_demand_that_others_leave_no_room_for_is_refused_with_the_reason(self) -> None:
        if daemon.SANITIZED:
            self.skipTest(daemon.NO_PACKAGE)
        service = self.serve(gpu(f"used {824 * MIB}"))
        self.wait_foreign(service, 824 * MIB)
        refused = service.admit(300 * MIB)
        self.assertEqual("foreign_usage", refused.get("error"), refused)
        self.assertIn("824 MiB", refused["text"])
        self.assertEqual({"work": 200 * MIB}, service.admit(200 * MIB))
        decision = next(one for one in service.ask("explain")["decisions"] if one["kind"] == "refuse")
        self.assertEqual("foreign_usage", decision["reason"])
        self.assertEqual(824 * MIB, decision["inputs"]["foreign_bytes"])
        self.assertEqual(1, service.metrics()['penstock_admissions_total{decision="refused",reason="foreign_usage"}'])

    def test_our_own_context_and_what_is_less_than_ours_is_not_foreign(self) -> None:
        service = self.serve(gpu("used 0"), PENSTOCK_FAKE_CONTEXT_BYTES=str(128 * MIB))
        self.wait_foreign(service, 128 * MIB)  # Nobody says whose it is.
        (writer,) = processes.children_of(service.process.pid)
        service.show(gpu(f"process {writer} {128 * MIB}", f"process {service.process.pid} 0"))
        self.wait_foreign(service, 0)
        self.assertEqual(0, service.device()["ghost_bytes"])
        self.load(service, tensors=24)
        # A driver that counts less than what is ours.
        service.show(f"device {UUID} 129 {GIB}\nused {16 * MIB}\n")
        self.assertTrue(daemon.wait_until(lambda: service.device()["usage"]["used_bytes"] == 16 * MIB))
        # A reading that meets frames that come may tell more for a moment; it goes down after three.
        self.wait_foreign(service, 0)

    def test_a_reader_that_hangs_stops_nothing(self) -> None:
        service = self.serve(gpu(f"used {700 * MIB}"))
        self.wait_foreign(service, 700 * MIB)
        service.show("hang\n")
        self.wait_foreign(service, None)  # Unknown now, and counted as it was.
        device = service.device()
        self.assertEqual((700 * MIB, 324 * MIB), (device["counted_foreign_bytes"], device["admissible_bytes"]))
        self.assertEqual("stalled", device["usage"]["state"])
        self.assertGreater(device["usage"]["age_seconds"], 5)
        self.load(service, tensors=24)
        self.assertIn("does not tell what others use (stalled)", service.log())
        self.assertIsNone(service.metric("penstock_foreign_bytes"))
        success = f'penstock_collector_success{{collector="usage",device="{device["id"]}"}}'
        self.assertEqual(0, service.metrics()[success])
        check = next(one for one in service.ask("doctor")["checks"] if one["name"] == f"{device['id']} usage")
        self.assertEqual("degraded", check["state"], check)
        self.assertEqual(0, service.stop())

    def test_without_a_reader_the_writers_view_counts(self) -> None:
        service = self.serve(None)
        other = subprocess.Popen(  # A process that holds memory of the same GPU.
            ["python3", "-c", HOLDER, str(FAKES / "cuda/libcuda.so.1"), str(800 * MIB)], text=True,
            env=service.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert other.stdin is not None and other.stdout is not None
        try:
            if daemon.SANITIZED:
                self.skipTest(daemon.NO_PACKAGE)
            self.assertEqual("held", other.stdout.readline().strip())
            self.assertTrue(daemon.wait_until(lambda: service.device()["counted_foreign_bytes"] == 800 * MIB, 20),
                            service.device())
            device = service.device()
            self.assertEqual((None, None, "absent"),
                             (device["foreign_bytes"], device["ghost_bytes"], device["usage"]["state"]))
            self.assertEqual(224 * MIB, device["admissible_bytes"])
        finally:
            other.stdin.close()
            other.wait(20)
            other.stdout.close()
        self.assertTrue(daemon.wait_until(lambda: service.device()["counted_foreign_bytes"] == 0, 20))

    def test_a_part_of_a_divided_gpu_has_its_own_figures(self) -> None:
        part = "MIG-c04e0000-c0da-4000-0000-000000000000"
        service = self.serve(f"device GPU-00000000-0000-0000-0000-0000000000ff 129 {8 * GIB}\nused {6 * GIB}\n"
                             f"part {part} {GIB}\ncounted 0\nused {640 * MIB}\n")
        self.wait_foreign(service, 640 * MIB)
        self.assertEqual(GIB, service.device()["usage"]["total_bytes"])
        self.assertEqual(384 * MIB, service.device()["admissible_bytes"])

    def test_an_integrated_gpu_is_budgeted_on_the_machines_memory(self) -> None:
        service = self.serve(None, PENSTOCK_FAKE_INTEGRATED="1")
        usage = service.device()["usage"]
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        total = next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemTotal:"))
        self.assertEqual((True, "current", total),
                         (usage["shares_host_memory"], usage["state"], usage["total_bytes"]))
        self.assertGreater(service.device()["foreign_bytes"], 0)

    def test_an_amd_gpu_by_its_library(self) -> None:
        service = self.serve(f"{0x81 << 8} {GIB} {900 * MIB}\n", vendor="hip")
        self.wait_foreign(service, 900 * MIB)
        self.assertEqual(124 * MIB, service.device()["admissible_bytes"])


HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
class Prop(ctypes.Structure):
  _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("where", ctypes.c_int), ("device", ctypes.c_int),
              ("win32", ctypes.c_void_p), ("flags", ctypes.c_uint64)]
prop, handle = Prop(type=1, handles=1, where=1), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(int(sys.argv[2])), ctypes.byref(prop), ctypes.c_uint64(0)) == 0
print("held", flush=True)
sys.stdin.read()
"""


if __name__ == "__main__":
    unittest.main()
