# SPDX-License-Identifier: Apache-2.0
"""comfy-env's budget: our formula beside the published wheel's, and answers out of booked admission."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import penstock
from comfyui.seam import MIB, PAGE, WithSeam, daemon
from penstock_comfyui import devices, reserve, workers
from penstock_comfyui.link import link

WHEEL = Path(__file__).with_name("requirements-comfy-env.txt")
GIB = 1 << 30


class Management(ModuleType):
    """As much of comfy.model_management as a budget takes."""

    def __init__(self, free: int = 24 * GIB, reserved: int = 400 * MIB, device: str = "cuda") -> None:
        super().__init__("comfy.model_management")
        self.free, self.EXTRA_RESERVED_VRAM = free, reserved
        self.vram_state = SimpleNamespace(name="NORMAL_VRAM")
        self.asked: list[float] = []
        self.device = SimpleNamespace(type=device, index=0)

    def get_torch_device(self) -> Any:
        return self.device

    def get_free_memory(self, device: Any = None, torch_free_too: bool = False) -> int:
        return self.free

    def extra_reserved_memory(self) -> int:
        return self.EXTRA_RESERVED_VRAM

    def minimum_inference_memory(self) -> float:
        return GIB * 0.8 + self.EXTRA_RESERVED_VRAM

    def free_memory(self, nbytes: float, device: Any) -> None:
        self.asked.append(nbytes)


@contextmanager
def modules(management: Management, pool: Any = None) -> Iterator[None]:
    comfy: Any = ModuleType("comfy")
    comfy.model_management = management
    found: dict[str, Any] = {"comfy": comfy, "comfy.model_management": management}
    if pool is not None:
        found[workers.POOL] = pool
    with unittest.mock.patch.dict(sys.modules, found):
        yield


class PublishedWheel(unittest.TestCase):
    pool: Any

    @classmethod
    def setUpClass(cls) -> None:
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                               "--require-hashes", "--only-binary=:all:", "-d", str(folder), "-r", str(WHEEL)],
                              capture_output=True, text=True, check=False)
        found = list(folder.glob("*.whl"))
        if done.returncode != 0 or not found:
            if "MISMATCH" in done.stderr.upper():
                raise AssertionError(done.stderr)
            raise unittest.SkipTest(f"requires the package index for comfy-env: {done.stderr.strip()[-200:]}")
        with zipfile.ZipFile(found[0]) as archive:
            archive.extractall(folder)
        cls.enterClassContext(unittest.mock.patch.object(sys, "path", [*sys.path, str(folder)]))
        before = dict(sys.modules)
        try:
            cls.pool = importlib.import_module(workers.POOL)
        except ModuleNotFoundError as error:
            raise unittest.SkipTest(f"requires {error.name}, which comfy-env imports") from error
        cls.addClassCleanup(lambda: [sys.modules.pop(name) for name in set(sys.modules) - set(before)
                                     if name.startswith("comfy_env")])

    def test_what_a_load_takes_is_what_comfy_env_asks_comfyui_to_free(self) -> None:
        requests: list[dict[str, Any]] = [
            {"total_size": GIB}, {"total_size": 0}, {}, {"total_size": 12 * GIB, "num_streams": 2},
            {"total_size": GIB, "num_streams": 2, "model_info": [{"largest_tensor": 900 * MIB}, {"largest_tensor": None}]},
            {"total_size": 123456789, "num_streams": 3, "model_info": [{"largest_tensor": GIB}, {}]}]
        for reserved in (400 * MIB, 0, 3 * GIB):
            for request in requests:
                with self.subTest(request=request, reserved=reserved):
                    management = Management(reserved=reserved)
                    with modules(management), unittest.mock.patch.object(self.pool, "_ask_idle_workers"):
                        reply = self.pool._handle_vram_budget(request, worker_key="/env")
                        ours = workers.need(management, self.pool, request, "/env")
                    self.assertEqual([ours], [int(asked) for asked in management.asked])
                    self.assertEqual({"device", "extra_reserved_vram", "vram_state", "device_free_bytes"}, set(reply))

    def test_a_gibibyte_takes_what_was_measured(self) -> None:
        management = Management()
        with modules(management):
            self.assertEqual(2_774_112_665, workers.need(management, self.pool, {"total_size": GIB}))

    def test_a_worker_s_own_overhead_counts(self) -> None:
        management = Management()
        with modules(management), unittest.mock.patch.dict(self.pool._OVERHEAD_REPORTS, {"/env": {"excess": 77 * MIB}}), \
                unittest.mock.patch.object(self.pool, "_ask_idle_workers"):
            self.pool._handle_vram_budget({"total_size": GIB}, worker_key="/env")
            ours = workers.need(management, self.pool, {"total_size": GIB}, "/env")
            self.assertEqual([ours], [int(asked) for asked in management.asked])
            self.assertEqual(77 * MIB, ours - workers.need(management, self.pool, {"total_size": GIB}, "/other"))

    def test_it_is_a_version_that_we_know(self) -> None:
        before = self.pool._handle_vram_budget
        self.addCleanup(setattr, self.pool, "_handle_vram_budget", before)
        workers.look()
        self.assertIsNot(before, self.pool._handle_vram_budget)
        again = self.pool._handle_vram_budget
        workers.look()
        self.assertIs(again, self.pool._handle_vram_budget)


class Booked(WithSeam):
    """The service has 8 MiB; ComfyUI, inference and contexts need nothing here."""

    def setUp(self) -> None:
        super().setUp()
        link.service()
        self.management = Management(free=8 * MIB, reserved=0)
        self.enterContext(unittest.mock.patch.object(self.management, "minimum_inference_memory", lambda: 0))
        self.enterContext(unittest.mock.patch.multiple(workers, _CONTEXT_BYTES=0, WAIT_SECONDS=0.2, _refused=False))
        self.enterContext(unittest.mock.patch.object(devices, "id_of", lambda index: "host"))
        self.addCleanup(workers.release)
        self.pool = SimpleNamespace(_OVERHEAD_REPORTS={}, _worker_charges=dict, _handle_vram_budget=self.theirs)
        self.enterContext(modules(self.management, self.pool))
        self.enterContext(unittest.mock.patch("importlib.metadata.version", return_value="0.4.46"))
        workers.look()

    def theirs(self, request: Any, worker_key: Any = None) -> dict[str, Any]:
        return {"device": "cuda:0", "extra_reserved_vram": self.management.EXTRA_RESERVED_VRAM, "vram_state": "NORMAL_VRAM",
                "device_free_bytes": self.management.free}

    def ask(self, nbytes: int, worker: str = "/one") -> dict[str, Any]:
        reply: dict[str, Any] = self.pool._handle_vram_budget({"total_size": nbytes}, worker_key=worker)
        return reply

    def booked(self) -> int:
        return int(self.daemon.device()["booked_bytes"])

    def test_bytes_are_booked_until_the_node_ends(self) -> None:
        reply = self.ask(2 * MIB)
        self.assertEqual({"device": "cuda:0", "extra_reserved_vram": 0, "vram_state": "NORMAL_VRAM",
                          "device_free_bytes": 8 * MIB}, reply)
        self.assertEqual(int(2 * MIB * 1.1), self.booked())
        workers.release()
        self.assertEqual(0, self.booked())

    def test_another_load_of_a_worker_takes_the_place_of_its_last(self) -> None:
        self.ask(6 * MIB)
        self.ask(7 * MIB)  # Both don't fit.
        self.assertEqual(int(7 * MIB * 1.1), self.booked())

    def test_a_second_worker_sees_what_the_first_was_promised_as_taken(self) -> None:
        self.ask(5 * MIB)
        reply = self.ask(3 * MIB, "/two")
        # Not all of what it wants, but its weights' would not fit beside: it hears what is left.
        self.assertEqual(8 * MIB - int(5 * MIB * 1.1), reply["device_free_bytes"])
        self.assertEqual(int(5 * MIB * 1.1), self.booked())

    def test_pages_of_others_go_for_a_worker_and_are_free_for_it(self) -> None:
        with penstock.connect(socket=str(self.daemon.socket)) as other:
            table = other.private_table(8 * MIB)
            self.assertTrue(table.fault(0, 30 * PAGE))
            table.unpin(0, 30 * PAGE)
            self.management.free = 2 * PAGE
            with unittest.mock.patch.object(self.management, "get_free_memory", lambda device: 8 * MIB):
                self.assertEqual(8 * MIB, self.ask(4 * MIB)["device_free_bytes"])
            self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] <= 8 * MIB - int(4.4 * MIB)))

    def test_what_others_were_promised_is_told_once(self) -> None:
        with unittest.mock.patch.object(reserve, "_promised", 3 * MIB):
            self.management.EXTRA_RESERVED_VRAM = 3 * MIB + 5
            reply = self.ask(MIB)
        self.assertEqual(5, reply["extra_reserved_vram"])
        self.assertEqual(int(MIB * 1.1) + 5, self.booked())

    def test_without_a_service_or_a_gpu_of_it_comfy_env_answers(self) -> None:
        with unittest.mock.patch.object(devices, "id_of", lambda index: None):
            self.assertEqual(self.theirs({}), self.ask(MIB))
        self.management.device = SimpleNamespace(type="cpu", index=None)
        self.assertEqual(self.theirs({}), self.ask(MIB))
        self.management.device = SimpleNamespace(type="cuda", index=0)
        link.reset("/nonexistent")
        self.assertEqual(self.theirs({}), self.ask(MIB))

    def test_an_error_of_ours_is_no_error_of_the_worker_s(self) -> None:
        with unittest.mock.patch.object(self.management, "extra_reserved_memory", side_effect=ZeroDivisionError), \
                self.assertLogs("penstock", "WARNING"):
            self.assertEqual(self.theirs({}), self.ask(MIB))


class Versions(unittest.TestCase):
    def refused(self, pool: Any, version: str = "0.4.46") -> str:
        before = getattr(pool, "_handle_vram_budget", None)
        with modules(Management(), pool), unittest.mock.patch.object(workers, "_refused", False), \
                unittest.mock.patch("importlib.metadata.version", return_value=version), \
                unittest.mock.patch.object(workers, "say_once") as said:
            workers.look()
            workers.look()
        self.assertIs(before, getattr(pool, "_handle_vram_budget", None))
        self.assertEqual(1, said.call_count)
        return str(said.call_args[0][0])

    def test_an_unknown_version_is_refused_by_its_number(self) -> None:
        pool = SimpleNamespace(_OVERHEAD_REPORTS={}, _worker_charges=dict, _handle_vram_budget=lambda request, worker_key: {})
        self.assertIn("comfy-env 0.5.0 is not known", self.refused(pool, "0.5.0"))

    def test_a_missing_name_or_another_signature_is_refused_and_named(self) -> None:
        self.assertIn("_OVERHEAD_REPORTS", self.refused(SimpleNamespace(_handle_vram_budget=lambda request, worker_key: {})))
        other = SimpleNamespace(_OVERHEAD_REPORTS={}, _worker_charges=dict, _handle_vram_budget=lambda request: {})
        self.assertIn("_handle_vram_budget(request, worker_key)", self.refused(other))

    def test_without_comfy_env_nothing_happens(self) -> None:
        with unittest.mock.patch.object(workers, "say_once") as said:
            workers.look()
        said.assert_not_called()


if __name__ == "__main__":
    unittest.main()
