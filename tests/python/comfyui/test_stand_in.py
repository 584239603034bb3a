# SPDX-License-Identifier: Apache-2.0
"""Others' memory in ComfyUI's ledger, against the real service: what free_memory would do to it."""

from __future__ import annotations

import gc
import os
import sys
import unittest
import unittest.mock
import weakref
from types import SimpleNamespace
from typing import Any

import penstock
from comfyui.seam import MIB, PAGE, WithSeam, daemon
from penstock_comfyui import boundaries, devices, others, safe_points, work
from penstock_comfyui.link import link
from penstock_comfyui.others import OnDevice
from penstock_comfyui.stand_in import StandIn, StandIns

# What ComfyUI calls on a patcher in its ledger.
MEMBERS = ("load_device offload_device parent model model_size loaded_size current_loaded_device model_dtype model_patches_to "
           "model_patches_models partially_load partially_unload detach lowvram_patch_counter is_dynamic is_clone "
           "clone_base_uuid get_nested_additional_models").split()


class LoadedModel:
    """As far as the ledger goes."""

    def __init__(self, model: Any) -> None:
        self._model = weakref.ref(model)
        self.device = model.load_device
        self.currently_used = True
        self.real_model: Any = None
        self.model_finalizer: Any = None

    @property
    def model(self) -> Any:
        return self._model()

    def model_unload(self, memory_to_free: float | None = None, unpatch_weights: bool = True) -> bool:
        raise AssertionError("a stand-in has its own")


class Ledger(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(unittest.mock.patch.object(safe_points, "STATUS_SECONDS", 0))
        link.service()
        self.tables: list[Any] = []
        self.device = SimpleNamespace(type="cuda", index=0)
        self.management = SimpleNamespace(current_loaded_models=[], LoadedModel=LoadedModel,
                                          cleanup_models=lambda: None,
                                          get_all_torch_devices=lambda: [self.device], unet_offload_device=lambda: "cpu")
        self.stand_ins = StandIns(self.management)
        self.enterContext(unittest.mock.patch.multiple(devices, id_of=lambda index: "host", ours=lambda index: False))

    def others_pages(self, pages: int = 8, pinned: int = 0) -> Any:
        service = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        table = service.private_table(8 * MIB)
        self.assertTrue(table.fault(0, pages * PAGE))
        table.unpin(pinned * PAGE, (pages - pinned) * PAGE)
        self.tables.append(table)
        # The device's figures follow by some milliseconds.
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["pinned_bytes"] == pinned * PAGE
                                          and self.daemon.device()["resident_bytes"] >= pages * PAGE))
        return table

    def entry(self) -> Any:
        self.stand_ins.place()
        (entry,) = self.management.current_loaded_models
        return entry

    def test_it_has_all_that_comfyui_asks_of_a_patcher_and_cleans_up_after(self) -> None:
        table = self.others_pages()
        entry = self.entry()
        self.assertEqual([], [name for name in MEMBERS if not hasattr(entry.model, name)])
        self.assertIsNotNone(entry.real_model())
        entry.model_finalizer.detach()
        self.assertEqual((False, False, self.device), (entry.currently_used, entry.model.is_dynamic(), entry.device))
        self.assertEqual((False, True), (entry.model.is_clone(object()), entry.model.is_clone(entry.model)))
        self.assertIs(entry.model, entry.model.detach(unpatch_all=False))
        self.assertEqual(8 * PAGE, self.daemon.device()["resident_bytes"])
        table.close()

    def test_free_memory_gets_what_it_asks_for_and_no_more(self) -> None:
        self.others_pages()
        entry = self.entry()
        self.assertEqual(8 * PAGE, entry.model.loaded_size())
        self.assertFalse(entry.model_unload(3 * PAGE - 5))
        self.assertEqual(5 * PAGE, self.daemon.device()["resident_bytes"])
        self.assertEqual((5 * PAGE, 5 * PAGE), (entry.model.loaded_size(), entry.model.model_size()))
        self.assertFalse(entry.model_unload(100 * MIB))
        self.assertEqual((0, 0), (self.daemon.device()["resident_bytes"], entry.model.loaded_size()))

    def test_what_was_released_right_before_is_room_that_is_not_used(self) -> None:
        """The device's budget follows a release by a moment."""
        table = self.others_pages(8)
        patcher = self.entry().model
        for left in range(7, -1, -1):
            self.assertEqual(PAGE, patcher.partially_unload("cpu", PAGE))
            self.assertEqual(left * PAGE, self.daemon.device()["resident_bytes"])
            others.release()
        table.close()

    def test_bytes_told_are_those_that_went_and_pinned_pages_stay(self) -> None:
        table = self.others_pages(8, pinned=6)
        patcher = self.entry().model
        self.assertEqual(2 * PAGE, patcher.loaded_size())
        self.assertEqual(2 * PAGE, patcher.partially_unload("cpu", 5 * PAGE))
        self.assertEqual(0, patcher.partially_unload("cpu", 5 * PAGE))
        self.assertEqual(6 * PAGE, self.daemon.device()["resident_bytes"])
        table.unpin(0, 6 * PAGE)

    def test_nobody_gets_what_became_free_before_comfyui_used_it(self) -> None:
        table = self.others_pages(32)
        patcher = self.entry().model
        self.assertEqual(4 * PAGE, patcher.partially_unload("cpu", 4 * PAGE))
        self.assertEqual(4 * PAGE, self.daemon.device()["booked_bytes"])
        self.assertFalse(table.fault(0, 32 * PAGE))
        others.release()
        self.assertEqual(0, self.daemon.device()["booked_bytes"])

    def test_unloading_everything_of_comfyui_s_takes_nothing_of_others(self) -> None:
        self.others_pages()
        entry = self.entry()
        for nbytes in (1e30, 1e32, None):
            self.assertFalse(entry.model_unload(nbytes))
        self.assertEqual(0, entry.model.partially_unload("cpu", 1e32))
        self.assertEqual(8 * PAGE, self.daemon.device()["resident_bytes"])

    def test_where_all_of_its_own_goes_each_time_it_asks_others_for_what_is_lacking_then(self) -> None:
        """--disable-smart-memory: ComfyUI tells each model to go, the stand-in too, before others' room is of any use."""
        self.others_pages()
        entry = self.entry()
        free, own = [10 * PAGE], [2 * PAGE]

        def free_memory(memory_required: float, device: Any) -> str:
            self.assertFalse(entry.model_unload(1e32))
            free[0] += own.pop() if own else 0
            return "unloaded"

        self.management.get_free_memory = lambda device: free[0]
        around = boundaries._around_free(free_memory, self.management, self.stand_ins, boundaries._Loads())
        for asked, smart, left in ((15 * PAGE - 5, True, 8), (12 * PAGE, False, 8), (1e30, False, 8), (1e32, False, 8),
                                   (15 * PAGE - 5, False, 5), (100 * MIB, False, 0)):
            self.management.DISABLE_SMART_MEMORY = not smart
            self.assertEqual("unloaded", around(asked, self.device))
            self.assertEqual(left * PAGE, self.daemon.device()["resident_bytes"], (asked, smart))
            others.release()
        del self.management.get_free_memory
        with self.assertLogs("penstock", "WARNING"):
            self.assertEqual("unloaded", around(PAGE, self.device))

    def test_it_comes_and_goes_with_what_others_hold(self) -> None:
        self.stand_ins.place()
        self.assertEqual([], self.management.current_loaded_models)
        table = self.others_pages()
        other = object()
        self.management.current_loaded_models.append(other)
        entry = self.entry_beside(other)
        self.stand_ins.place()
        self.assertEqual([other, entry], self.management.current_loaded_models)
        self.tables.clear()
        table.close()
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))
        self.stand_ins.place()
        self.assertEqual([other], self.management.current_loaded_models)

    def entry_beside(self, other: object) -> Any:
        self.stand_ins.place()
        return next(one for one in self.management.current_loaded_models if one is not other)

    def test_pages_of_this_process_are_no_others(self) -> None:
        service = link.service()
        assert service is not None
        with unittest.mock.patch("penstock_comfyui.pager.present_bytes", return_value=8 * PAGE):
            self.others_pages()  # They look like ours.
            self.assertEqual(0, OnDevice("host", 0).bytes())

    def test_devices_that_the_service_pages_or_does_not_have_get_none(self) -> None:
        self.others_pages()
        with unittest.mock.patch.multiple(devices, ours=lambda index: True, dynamic=lambda: True):
            self.stand_ins.place()
        with unittest.mock.patch.object(devices, "id_of", lambda index: None):
            self.stand_ins.place()
        self.management.get_all_torch_devices = lambda: [SimpleNamespace(type="cpu", index=None)]
        self.stand_ins.place()
        self.assertEqual([], self.management.current_loaded_models)

    def test_without_a_service_it_frees_nothing_and_looks_for_none(self) -> None:
        self.others_pages()
        patcher = self.entry().model
        link.reset("/nonexistent")
        with unittest.mock.patch.object(penstock, "connect", side_effect=AssertionError):
            self.assertEqual((0, 0), (patcher.partially_unload("cpu", PAGE), patcher.loaded_size()))
            self.stand_ins.place()
        self.assertEqual([], self.management.current_loaded_models)

    def test_nothing_raises_where_the_ledger_is_another(self) -> None:
        del self.management.LoadedModel
        with self.assertLogs("penstock", "WARNING"):
            self.stand_ins.place()

    def test_the_ledger_keeps_no_stand_in_alive(self) -> None:
        self.others_pages()
        gone = weakref.ref(self.entry().model)
        self.assertIsNotNone(gone())
        self.stand_ins = StandIns(self.management)
        gc.collect()
        self.assertIsNone(gone())

    def test_its_size_is_asked_for_now_and_then_and_what_it_asks_for_has_limits(self) -> None:
        """What a prompt waits for."""
        self.others_pages(32)
        patcher = self.entry().model
        answer, asked = link.answer, []

        def noted(ask: Any, seconds: float | None = None) -> Any:
            asked.append(seconds)
            return answer(ask, seconds)

        self.enterContext(unittest.mock.patch.object(link, "answer", noted))
        self.enterContext(unittest.mock.patch.multiple(safe_points, STATUS_SECONDS=3600, _status_at=0.0))
        self.assertEqual({32 * PAGE}, {patcher.loaded_size() for _ in range(20)})
        self.assertLessEqual(len(asked), 1)
        asked.clear()
        admit, limits = penstock.Service.admit, []

        def limited(service: Any, **options: Any) -> Any:
            limits.append(options["timeout"])
            return admit(service, **options)

        with unittest.mock.patch.object(penstock.Service, "admit", limited):
            self.assertEqual(PAGE, patcher.partially_unload("cpu", PAGE))
        self.assertEqual(([others.SHRINK_SECONDS], 1), (limits, sum(one is not None for one in asked)))
        self.assertIsInstance(patcher, StandIn)


class OnAGpu(WithSeam):
    """The tests' own driver, and a ComfyUI whose weights there are left to comfy-aimdo."""

    kind = "cuda"

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(unittest.mock.patch.dict(os.environ, {devices.ON_GPUS: "0"}))
        arguments: Any = SimpleNamespace(args=SimpleNamespace(cpu=False))
        self.enterContext(unittest.mock.patch.dict(sys.modules, {"comfy.cli_args": arguments}))
        self.enterContext(unittest.mock.patch.object(safe_points, "STATUS_SECONDS", 0))
        devices.forget()
        link.service()

    def others_pages(self) -> tuple[int, Any]:
        """Eight of them, unpinned; the size of one."""
        service = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        service.use_device()
        page = service.devices[0].page_bytes
        table = service.private_table(8 * page)
        self.assertTrue(table.fault(0, 8 * page))
        table.unpin(0, 8 * page)
        service.set_idle(True)
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["pinned_bytes"] == 0
                                          and self.daemon.device()["resident_bytes"] == 8 * page))
        return page, table

    def test_without_dynamic_vram_a_gpu_of_ours_has_one_too_and_a_load_finds_room(self) -> None:
        with unittest.mock.patch.dict(os.environ, {devices.ON_GPUS: "1"}):
            devices.forget()
            self.assertTrue(devices.ours(0))
            page, table = self.others_pages()
            gpu = SimpleNamespace(type="cuda", index=0)
            management = SimpleNamespace(current_loaded_models=[], LoadedModel=LoadedModel, cleanup_models=lambda: None,
                                         get_all_torch_devices=lambda: [gpu], unet_offload_device=lambda: "cpu",
                                         minimum_inference_memory=lambda: page)
            freed: list[int] = []

            booked: list[int] = []

            def load(models: Any, memory_required: int) -> None:
                booked.append(work.booked_bytes(self.daemon.device()["id"]))
                for entry in management.current_loaded_models:
                    freed.append(entry.model.partially_unload("cpu", memory_required))

            quiet: Any = SimpleNamespace(publish=lambda: None)
            around = boundaries._around_load(load, management, quiet, StandIns(management), boundaries._Loads())
            for dynamic, expected in ((True, []), (False, [3 * page])):
                modules = {"comfy.memory_management": SimpleNamespace(aimdo_enabled=dynamic)}
                with unittest.mock.patch.dict(sys.modules, modules):  # type: ignore[arg-type]
                    around([SimpleNamespace(load_device=gpu)], 3 * page)
                work.release()
                self.assertEqual((expected, 4 * page if dynamic else 0), (freed, booked[-1]))
            self.assertEqual(5 * page, self.daemon.device()["resident_bytes"])
            table.close()

    def test_a_gpu_is_found_by_its_number_and_its_pages_can_be_asked_for(self) -> None:
        device = self.daemon.device()["id"]
        self.assertEqual((device, None), (devices.id_of(0), devices.id_of(7)))
        self.assertFalse(devices.ours(0))
        gpu = SimpleNamespace(type="cuda", index=0)
        management = SimpleNamespace(current_loaded_models=[], LoadedModel=LoadedModel, cleanup_models=lambda: None,
                                     get_all_torch_devices=lambda: [gpu], unet_offload_device=lambda: "cpu")
        stand_ins = StandIns(management)
        page, table = self.others_pages()
        stand_ins.place()
        (entry,) = management.current_loaded_models
        self.assertFalse(entry.model_unload(3 * page))
        self.assertEqual(5 * page, self.daemon.device()["resident_bytes"])
        others.release()
        table.close()


if __name__ == "__main__":
    unittest.main()
