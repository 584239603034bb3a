# SPDX-License-Identifier: Apache-2.0
"""When the service's asks are answered, and what ComfyUI is told of bytes that others were promised."""

from __future__ import annotations

import asyncio
import unittest
import unittest.mock
from types import SimpleNamespace
from typing import Any

import penstock
from comfyui.management import boundaries_of
from comfyui.seam import KIB, MIB, PAGE, WithSeam, daemon
from penstock_comfyui import devices, host_memory, reserve, safe_points, work
from penstock_comfyui.host_memory import READ_BY_SERVICE_LEAST
from penstock_comfyui.link import link
from penstock_comfyui.surface import control, host_buffer, model_vbar, vram_buffer


class Asking:
    """The real service, and asks of a test's. Notes what is said to it."""

    def __init__(self, service: penstock.Service) -> None:
        self._service = service
        self.wanted = 0
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def next_pressure(self) -> penstock.Pressure | None:
        wanted, self.wanted = self.wanted, 0
        return penstock.Pressure("some", wanted) if wanted else None

    def run_revokes(self) -> None:
        self.said.append("revokes")
        self._service.run_revokes()

    def set_idle(self, idle: bool) -> None:
        self.said.append(f"idle {idle}")
        self._service.set_idle(idle)

    def free(self, nbytes: int, timeout: float | None = None, device: str | None = None) -> int:
        self.said.append("free")
        return self._service.free(nbytes, timeout, device)


class WithAsks(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        service = link.service()
        assert service is not None
        self.asking = Asking(service)
        self.enterContext(unittest.mock.patch.object(link, "_service", self.asking))
        self.enterContext(unittest.mock.patch.multiple(safe_points, LOOK_SECONDS=0, PROMISED_SECONDS=0, _wanted=0))
        safe_points.promised_to_others(host_memory.booked_bytes, list)

    def filled(self, pages: int = 4) -> Any:
        vbar = model_vbar.ModelVBAR(8 * MIB, 0)
        allocation = vbar.alloc(pages * PAGE)
        model_vbar.vbar_fault(allocation)
        model_vbar.vbar_unpin(allocation)
        return allocation

    def other(self) -> penstock.Service:
        return self.enterContext(penstock.connect(socket=str(self.daemon.socket)))


class Asks(WithAsks):
    def test_an_ask_is_answered_in_a_fault_and_takes_no_page_that_is_pinned(self) -> None:
        allocation = self.filled()
        pinned = allocation[0].alloc(PAGE)
        model_vbar.vbar_fault(pinned)
        self.asking.wanted = 8 * MIB
        model_vbar.vbar_fault(pinned)
        self.assertEqual(PAGE, allocation[0].loaded_size())

    def test_pages_with_a_page_out_callback_are_given_for_what_the_others_lack(self) -> None:
        gone: list[int] = []
        plain = self.filled(2)
        vbar = model_vbar.ModelVBAR(4 * MIB, 0, pageout_callback=lambda offset, size: gone.append(offset))
        held = vbar.alloc(4 * PAGE)
        model_vbar.vbar_fault(held)
        model_vbar.vbar_unpin(held)
        devices.wait_for(0)
        self.asking.wanted = 3 * PAGE
        safe_points.end_node()
        self.assertEqual((0, 3 * PAGE, [3 * PAGE]), (plain[0].loaded_size(), vbar.loaded_size(), gone))

    def test_an_ask_is_answered_in_an_unpin(self) -> None:
        allocation = self.filled()
        self.asking.wanted = 2 * PAGE
        def looked() -> bool:
            model_vbar.vbar_unpin(allocation)  # A stray one is one of our calls, too.
            return bool(allocation[0].loaded_size() <= 2 * PAGE)

        self.assertTrue(daemon.wait_until(looked), f"{allocation[0].loaded_size()}")

    def test_an_ask_waits_for_one_of_our_calls(self) -> None:
        allocation = self.filled()
        self.asking.wanted = 2 * PAGE
        self.assertEqual(4 * PAGE, allocation[0].loaded_size())
        devices.wait_for(0)
        safe_points.end_node()
        self.assertEqual(2 * PAGE, allocation[0].loaded_size())

    def test_calls_look_for_asks_only_now_and_then(self) -> None:
        with unittest.mock.patch.object(safe_points, "LOOK_SECONDS", 3600):
            allocation = self.filled()
            self.asking.wanted = PAGE
            self.filled()
        self.assertEqual(4 * PAGE, allocation[0].loaded_size())

    def test_without_a_service_nothing_happens(self) -> None:
        link.reset("/nonexistent")
        for point in (safe_points.in_call, safe_points.end_node, safe_points.start_prompt, safe_points.end_prompt):
            point()
        self.assertEqual(0, safe_points.promised_to_others(lambda device: 0, lambda: ["host"]))


class OnAGpu(WithAsks):
    kind = "cuda"

    def test_pressure_of_the_host_takes_buffers_that_nobody_uses_and_no_page_of_a_gpu(self) -> None:
        vbar = model_vbar.ModelVBAR(64 * MIB, 0)
        allocation = vbar.alloc(16 * MIB)
        self.assertIsNotNone(model_vbar.vbar_fault(allocation))
        model_vbar.vbar_unpin(allocation)
        path = self.daemon.folder / "file"
        path.write_bytes(bytes(READ_BY_SERVICE_LEAST))
        with open(path, "rb") as file:
            host_buffer.read_file_to_device(file, 0, READ_BY_SERVICE_LEAST, 0, allocation[1], 0)
        devices.wait_for(0)
        self.assertGreater(self.client()["locked_host_bytes"], 0)
        self.asking.wanted = 256 * MIB
        safe_points.end_node()
        self.assertTrue(daemon.wait_until(lambda: self.client()["locked_host_bytes"] == 0))
        self.assertEqual(16 * MIB, vbar.loaded_size())

    def test_room_for_what_is_computed_is_made_where_it_is_computed(self) -> None:
        status = {"devices": [{"id": "cuda-0", "admissible_bytes": 9, "used_bytes": 0}, {"id": "cuda-1", "admissible_bytes": 9, "used_bytes": 8}]}
        service = unittest.mock.Mock()
        service.status.return_value = status
        service.admit.side_effect = [penstock.ExhaustedError("full"), unittest.mock.Mock()]
        work._book(service, "cuda-1", 1, 5, work.WAIT_SECONDS)
        self.addCleanup(work.release)
        service.free.assert_called_once_with(4, safe_points.FREE_SECONDS, "cuda-1")


class Headroom(unittest.TestCase):
    def test_theirs_gets_the_user_s_number_and_what_others_were_promised(self) -> None:
        told: list[int] = []
        module = SimpleNamespace(lib=object(), set_simple_vram_headroom=told.append)
        self.enterContext(unittest.mock.patch.multiple(reserve, _headroom=None, _promised=0))
        self.enterContext(unittest.mock.patch.dict(reserve.theirs._found, {"control": module}))
        asked = self.enterContext(unittest.mock.patch.object(safe_points, "promised_to_others", return_value=0))
        management = SimpleNamespace(EXTRA_RESERVED_VRAM=1)
        one = reserve.Reserve(management)
        one.publish()
        asked.return_value = 100
        one.publish()
        control.set_simple_vram_headroom(7)
        asked.side_effect = OSError
        one.publish()
        self.assertEqual([(256 << 20) + 100, 107], told)
        self.assertEqual((101, 7), (management.EXTRA_RESERVED_VRAM, control.get_simple_vram_headroom()))


class TwoDevices(unittest.TestCase):
    def promised(self, counted: list[str], **booked: int) -> int:
        status = {"devices": [{"id": name, "booked_bytes": nbytes} for name, nbytes in booked.items()]}
        service = SimpleNamespace(status=lambda: status)
        self.enterContext(unittest.mock.patch.object(link, "present", return_value=service))
        self.enterContext(unittest.mock.patch.multiple(safe_points, PROMISED_SECONDS=0, _promised=0))
        own = {"gpu0": 10, "host": 1}
        return safe_points.promised_to_others(lambda device: own.get(device, 0), lambda: counted)

    def test_the_largest_counts_and_not_the_sum(self) -> None:
        self.assertEqual(90, self.promised(["gpu0", "gpu1"], gpu0=100, gpu1=60, host=500))

    def test_what_is_booked_elsewhere_does_not_count(self) -> None:
        self.assertEqual(0, self.promised(["gpu0"], gpu0=10, gpu1=60, host=500))
        self.assertEqual(499, self.promised(["host"], gpu0=100, gpu1=60, host=500))
        self.assertEqual(0, self.promised([], gpu0=100, gpu1=60, host=500))

    def test_devices_are_those_that_comfyui_computes_on(self) -> None:
        management = SimpleNamespace(EXTRA_RESERVED_VRAM=7, get_all_torch_devices=lambda: [
            SimpleNamespace(index=index) for index in (0, 1, 2)])
        self.enterContext(unittest.mock.patch.object(devices, "id_of", ["gpu0", "gpu1", None].__getitem__))
        counted = self.enterContext(unittest.mock.patch.object(safe_points, "promised_to_others", return_value=5))
        self.enterContext(unittest.mock.patch.object(reserve, "_promised", 5))
        reserve.Reserve(management).publish()
        self.assertEqual((12, {"gpu0", "gpu1"}), (management.EXTRA_RESERVED_VRAM, counted.call_args.args[1]()))

    def test_a_cast_buffer_in_host_memory_is_booked_there(self) -> None:
        service = unittest.mock.Mock()
        service.admit.return_value.work_bytes = 100
        self.enterContext(unittest.mock.patch.object(link, "service", return_value=service))
        self.enterContext(unittest.mock.patch.object(devices, "id_of", return_value="host"))
        buffer = host_memory.GrowingMemory(MIB, 0)
        buffer.place(0, 100)
        self.assertEqual("host", service.admit.call_args.kwargs["device"])
        self.assertEqual((100, 0), (buffer.booked_bytes("host"), buffer.booked_bytes("gpu0")))


class Boundaries(WithAsks):
    def install(self) -> Any:
        return boundaries_of(self, self.asking.said)

    def test_a_node_ends_after_its_buffers_went(self) -> None:
        management, _ = self.install()
        management.reset_cast_buffers()
        self.assertEqual(["reset", "revokes"], self.asking.said)

    def test_a_prompt_ends_idle_and_starts_busy(self) -> None:
        _, executor = self.install()
        self.assertEqual(1, asyncio.run(executor.execute_async(1)))
        self.assertEqual(["idle False", "prompt", "synchronize", "revokes", "idle True"], self.asking.said)

    def test_a_prompt_that_fails_ends_idle_too(self) -> None:
        _, executor = self.install()
        with self.assertRaises(ValueError):
            asyncio.run(executor.execute_async("fails"))
        self.assertEqual(["synchronize", "revokes", "idle True"], self.asking.said[-3:])

    def test_a_device_that_can_not_be_waited_for_is_not_idle(self) -> None:
        management, executor = self.install()
        management.synchronize = unittest.mock.Mock(side_effect=RuntimeError)
        asyncio.run(executor.execute_async(1))
        self.assertNotIn("idle True", self.asking.said)

    def test_what_others_were_promised_is_reserved_and_our_own_is_not(self) -> None:
        management, _ = self.install()
        buffer = vram_buffer.VRAMBuffer(MIB, 0)
        buffer.get(100 * KIB)
        with self.other().admit(work=MIB):
            management.load_models_gpu([])
            self.assertEqual(7 + MIB, management.EXTRA_RESERVED_VRAM)
            management.EXTRA_RESERVED_VRAM = 100  # A node that has an opinion.
            management.load_models_gpu([])
            self.assertEqual(100 + MIB, management.EXTRA_RESERVED_VRAM)
        management.load_models_gpu([])
        self.assertEqual(100, management.EXTRA_RESERVED_VRAM)

    def test_a_cast_buffer_s_booking_ends_with_it(self) -> None:
        buffer = vram_buffer.VRAMBuffer(MIB, 0)
        buffer.get(100 * KIB)
        self.assertEqual(100 * KIB, host_memory.booked_bytes("host"))
        self.assertEqual(100 * KIB, self.daemon.device()["booked_bytes"])
        del buffer
        self.assertEqual(0, self.daemon.device()["booked_bytes"])

    def test_another_client_s_pages_find_room_when_a_prompt_has_ended(self) -> None:
        _, executor = self.install()
        allocation = self.filled(30)
        asyncio.run(executor.execute_async(1))
        self.assertTrue(self.other().private_table(8 * MIB).fault(0, 8 * MIB))
        self.assertEqual(0, allocation[0].loaded_size())
