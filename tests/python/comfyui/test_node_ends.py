# SPDX-License-Identifier: Apache-2.0
"""Where nodes and prompts end, with ComfyUI's DynamicVRAM and without it."""

from __future__ import annotations

import asyncio
import sys
import unittest
import unittest.mock
from types import SimpleNamespace
from typing import Any

from comfyui.management import boundaries_of, modules
from comfyui.seam import MIB, WithSeam
from penstock_comfyui import boundaries, devices, holdings, lent_files, others, reserve, safe_points, tables, work, workers
from penstock_comfyui.link import link


class NodeEnds(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(unittest.mock.patch.object(holdings, "NODE_SECONDS", 0.0))
        self.said: list[str] = []
        self.enterContext(unittest.mock.patch.object(safe_points, "end_node", lambda: self.said.append("answered")))
        self.enterContext(unittest.mock.patch.object(holdings.Holdings, "_tell", lambda *_: self.said.append("told")))
        self.enterContext(unittest.mock.patch.object(holdings.Holdings, "_computed_now", lambda _: [self.said.append("looked")]))

    def run_prompt(self, dynamic: bool, *nodes: Any) -> list[str]:
        """What was called after the last node had begun."""
        management, executor = boundaries_of(self, self.said, dynamic)
        management.current_loaded_models = []
        asyncio.run(executor.execute_async(list(nodes)))
        return self.said[self.said.index("prompt") + 1:]

    def book(self) -> None:
        service = link.service()
        assert service is not None
        workers._booked["/worker"] = service.admit(work=MIB)
        work._booked["host"] = service.admit(work=MIB, timeout=0)
        one = others.OnDevice("host", 0)
        one._booked.append(service.admit(work=MIB, timeout=0))
        self.kept = one
        self.assertEqual(3 * MIB, self.booked())

    def booked(self) -> int:
        return int(self.daemon.device()["booked_bytes"])

    def test_without_dynamic_vram_bookings_end_with_the_node(self) -> None:
        self.run_prompt(False, self.book, lambda: self.assertEqual(0, self.booked()))

    def test_and_with_it_too(self) -> None:
        self.run_prompt(True, self.book, lambda: self.assertEqual(0, self.booked()))

    def test_after_models_went_what_the_device_had_for_them_goes_and_is_told(self) -> None:
        management, executor = boundaries_of(self, self.said)
        with unittest.mock.patch.object(lent_files, "give_back", lambda: self.said.append("given")):
            management.unload_all_models()
            executor.reset()
        self.assertEqual(["unload", "given", "told", "forgot", "given", "told"], [one for one in self.said if one != "looked"])

    def test_what_no_node_s_end_gave_back_goes_with_the_prompt(self) -> None:
        management, executor = boundaries_of(self, self.said, dynamic=True)
        management.reset_cast_buffers = lambda: None

        async def fails(*_: Any) -> Any:
            raise ValueError

        self.book()
        with self.assertRaises(ValueError), unittest.mock.patch("execution.execute", fails):
            asyncio.run(executor.execute_async([None]))
        self.assertEqual(0, self.booked())

    def test_a_node_that_fails_ends_too(self) -> None:
        def fails() -> None:
            self.book()
            raise ValueError

        with self.assertRaises(ValueError):
            self.run_prompt(False, fails)
        self.assertIn("answered", self.said)
        self.assertEqual(0, self.booked())

    def test_asks_and_reports_come_once_a_node_either_way(self) -> None:
        self.assertEqual(["synchronize", "answered", "looked", "told", "synchronize", "looked", "told"],
                         self.run_prompt(False, lambda: None))
        self.said.clear()
        self.assertEqual(["looked", "reset", "answered", "told", "synchronize", "looked", "told"],
                         self.run_prompt(True, lambda: None))

    def test_without_dynamic_vram_the_device_is_waited_for_only_now_and_then(self) -> None:
        with unittest.mock.patch.object(holdings.Holdings, "due", lambda _: False):
            self.assertEqual(["synchronize", "looked", "told"], self.run_prompt(False, lambda: None))

    def test_a_prompt_has_ended_when_each_device_with_pages_is_done(self) -> None:
        self.enterContext(unittest.mock.patch.object(tables, "_paged", {0, 1}))
        self.enterContext(unittest.mock.patch.object(safe_points, "end_prompt", lambda: self.said.append("idle")))
        failed: set[int] = set()

        def wait_for(index: int) -> bool:
            self.said.append(f"waited for {index}")
            return index not in failed

        self.enterContext(unittest.mock.patch.object(devices, "wait_for", wait_for))
        waits = ["synchronize", "waited for 0", "waited for 1"]
        self.assertEqual([*waits, "idle", "looked", "told"], self.run_prompt(True))
        failed.add(0)
        self.said.clear()
        self.assertEqual([*waits, "looked", "told"], self.run_prompt(True), "a device that failed is not idle")


class Growth(unittest.TestCase):
    """What torch will allocate on a GPU of ours."""

    def setUp(self) -> None:
        self.said: list[str] = []
        self.asked: list[tuple[int, float]] = []
        self.enterContext(unittest.mock.patch.object(devices, "on_gpu", lambda index: {0: SimpleNamespace(id="gpu")}.get(index)))
        self.enterContext(unittest.mock.patch.object(link, "service", lambda: SimpleNamespace(admit=self.admit)))
        self.enterContext(unittest.mock.patch.object(link, "answer", lambda ask, seconds=None: ask()))
        self.enterContext(unittest.mock.patch.object(holdings.Holdings, "_tell", lambda *_: None))
        self.gpu = SimpleNamespace(type="cuda", index=0)

    def admit(self, work: int, timeout: float, device: str) -> Any:
        self.assertEqual("gpu", device)
        self.asked.append((work, timeout))
        self.said.append("booked")
        return SimpleNamespace(work_bytes=work, release=lambda: self.said.append("released"))

    def run_prompt(self, *nodes: Any, dynamic: bool = True) -> Any:
        management, executor = boundaries_of(self, self.said, dynamic)
        management.current_loaded_models = []
        management.minimum_inference_memory, management.get_torch_device = lambda: 8 * MIB, lambda: self.gpu
        asyncio.run(executor.execute_async(list(nodes)))
        return self.said[self.said.index("prompt") + 1:]

    def test_a_node_without_a_load_has_what_comfyui_keeps_for_inference(self) -> None:
        self.assertEqual(["booked", "node", "reset", "released", "synchronize"], self.run_prompt(lambda: self.said.append("node")))
        self.assertEqual([(8 * MIB, 0)], self.asked)

    def test_a_node_that_asks_for_room_has_that_much_more(self) -> None:
        self.run_prompt(lambda: sys.modules["comfy.model_management"].free_memory(100 * MIB, self.gpu))
        self.assertEqual([8 * MIB, 108 * MIB], [nbytes for nbytes, _ in self.asked])
        self.assertLess(len(self.said) - self.said[::-1].index("booked") - 1, self.said.index("free"), "before it is made")

    def test_where_all_is_unloaded_nothing_is_asked_for_and_what_was_booked_stays(self) -> None:
        def node() -> None:
            management = sys.modules["comfy.model_management"]
            management.free_memory(1e30, self.gpu)
            management.free_memory(MIB, None)
            management.free_memory(MIB, SimpleNamespace(type="cpu", index=None))
            self.assertEqual(8 * MIB, work.booked_bytes("gpu"))

        self.run_prompt(node)
        self.assertEqual([8 * MIB], [nbytes for nbytes, _ in self.asked])
        self.assertEqual(0, work.booked_bytes("gpu"))

    def test_what_the_user_wants_to_stay_free_is_booked_with_it(self) -> None:
        reserve.keep_free({0: 3 * MIB, 1: 5 * MIB})
        self.addCleanup(reserve.keep_free, {})
        self.run_prompt(lambda: None)
        self.assertEqual([11 * MIB], [nbytes for nbytes, _ in self.asked])

    def test_a_load_makes_room_for_what_it_has_booked(self) -> None:
        management = SimpleNamespace(minimum_inference_memory=lambda: 8 * MIB)
        nothing: Any = SimpleNamespace(publish=lambda: None, place=lambda: None, make_up=lambda *_: None)
        loads = boundaries._Loads()
        free = boundaries._around_free(lambda *_: None, management, nothing, loads)

        def load(models: Any, memory_required: Any) -> None:
            free(50 * MIB, self.gpu)
            if not memory_required:
                raise ValueError

        around = boundaries._around_load(load, management, nothing, nothing, loads)
        models = [SimpleNamespace(load_device=self.gpu)]
        with modules(comfy__memory_management=SimpleNamespace(aimdo_enabled=True)):
            around(models, 5 * MIB)
            with self.assertRaises(ValueError):
                around(models, 0)
            free(50 * MIB, self.gpu)
        work.release()
        self.assertEqual([13 * MIB, 8 * MIB, 58 * MIB], [nbytes for nbytes, _ in self.asked])

    def test_without_dynamic_vram_the_ledger_does_it(self) -> None:
        self.run_prompt(lambda: sys.modules["comfy.model_management"].free_memory(MIB, self.gpu), dynamic=False)
        self.assertEqual([], self.asked)


if __name__ == "__main__":
    unittest.main()
