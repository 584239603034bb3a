# SPDX-License-Identifier: Apache-2.0
"""What ComfyUI reports of itself, measured on stand-ins of its ledger, caches and torch."""

from __future__ import annotations

import gc
import sys
import unittest.mock
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from comfyui import workers
from comfyui.recorded_caller import filed_model
from comfyui.seam import KIB, MIB, PAGE, WithSeam, daemon
from penstock import errors
from penstock_comfyui import devices, held_tensors, holdings, safe_points
from penstock_comfyui.held_tensors import Counted
from penstock_comfyui.holdings import Holdings
from penstock_comfyui.link import link
from penstock_comfyui.surface import host_buffer, model_vbar, vram_buffer


class Device:
    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type, self.index = kind, index

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


CPU = Device("cpu")
_places = iter(range(1 << 20, 1 << 30, 1 << 10))


class Storage:
    def __init__(self, nbytes: int) -> None:
        self._nbytes, self._place = nbytes, next(_places)

    def data_ptr(self) -> int:
        return self._place

    def nbytes(self) -> int:
        return self._nbytes


class Tensor:
    def __init__(self, nbytes: int, device: Device = CPU) -> None:
        self.nbytes, self.device, self._storage = nbytes, device, Storage(nbytes)

    def untyped_storage(self) -> Storage:
        return self._storage


class Module:
    """As torch's: parameters and buffers are those of the modules inside it, too."""

    def __init__(self, *held: Tensor, inside: tuple[Module, ...] = ()) -> None:
        self.held, self.inside = held, inside

    def modules(self) -> Iterator[Module]:
        yield self
        for one in self.inside:
            yield from one.modules()

    def parameters(self) -> Iterator[Tensor]:
        for one in self.modules():
            yield from one.held[:1]

    def buffers(self) -> Iterator[Tensor]:
        for one in self.modules():
            yield from one.held[1:]


def cache(*values: Any, **inner: Any) -> Any:
    return SimpleNamespace(cache=dict(enumerate(values)), subcaches=inner)


def executor(outputs: Any, objects: Any = None) -> Any:
    return SimpleNamespace(caches=SimpleNamespace(outputs=outputs, objects=objects or cache()))


def model(nbytes: int, loaded: int = 0, dynamic: bool = False, device: Device = CPU, **attributes: Any) -> Any:
    patcher = SimpleNamespace(model_size=lambda: nbytes, loaded_size=lambda: loaded, is_dynamic=lambda: dynamic,
                              model=SimpleNamespace(**attributes))
    return SimpleNamespace(model=patcher, device=device)


def count(*roots: Any) -> dict[tuple[str, int | None], int]:
    return Counted(Tensor, Module).count(roots)


class HeldTensors(unittest.TestCase):
    def test_each_storage_counts_once_however_often_it_is_there(self) -> None:
        tensor = Tensor(10)
        counted = Counted(Tensor, Module)
        self.assertEqual({("cpu", None): 15}, counted.count([tensor, [tensor, {"samples": tensor}], (Tensor(5),)]))
        self.assertEqual({}, counted.count([tensor]))

    def test_devices_are_told_apart(self) -> None:
        self.assertEqual({("cpu", None): 1, ("cuda", 0): 2, ("cuda", 1): 4},
                         count(Tensor(1), Tensor(2, Device("cuda", 0)), Tensor(4, Device("cuda", 1))))

    def test_what_is_counted_elsewhere_and_what_is_no_tensor_is_left_out(self) -> None:
        shared, mapped = Tensor(10), Tensor(10)
        shared.untyped_storage()._penstock = True  # type: ignore[attr-defined]
        mapped.untyped_storage()._comfy_tensor_mmap_refs = ()  # type: ignore[attr-defined]
        broken = Tensor(10)
        broken.untyped_storage = unittest.mock.Mock(side_effect=NotImplementedError)  # type: ignore[method-assign]
        self.assertEqual({}, count(shared, mapped, broken, object(), "text", None, 5))

    def test_parameters_and_buffers_of_a_module_count(self) -> None:
        inner = Module(Tensor(1), Tensor(2))
        self.assertEqual({("cpu", None): 7}, count([Module(Tensor(4), inside=(inner,))], {"again": inner}))

    def test_a_model_and_what_is_inside_it_is_left_out(self) -> None:
        inner = Module(Tensor(1))
        model, other = Module(Tensor(4), inside=(inner,)), Module(Tensor(8))
        counted = Counted(Tensor, Module)
        counted.leave_out(model)
        counted.leave_out(SimpleNamespace())  # Of somebody who has none.
        self.assertEqual({("cpu", None): 8}, counted.count([model, [inner], other]))

    def test_circles_and_depths_end(self) -> None:
        circle: list[Any] = [Tensor(1)]
        circle.append(circle)
        deep: Any = Tensor(100)
        for _ in range(20):
            deep = [deep]
        self.assertEqual({("cpu", None): 1}, count(circle, deep))

    def test_the_number_of_looks_is_bounded_and_told(self) -> None:
        counted = Counted(Tensor, Module)
        with unittest.mock.patch.object(held_tensors, "LOOKS_MAX", 10):
            small = Counted(Tensor, Module)
        self.assertEqual(9, small.count([[Tensor(1) for _ in range(50)]])["cpu", None])
        self.assertFalse(small.complete)
        counted.count([[]])
        self.assertTrue(counted.complete)

    def test_nothing_is_kept(self) -> None:
        tensor = Tensor(1)
        counted = Counted(Tensor, Module)
        counted.count([[tensor]])
        gone = weakref.ref(tensor)
        del tensor
        self.assertIsNone(gone())


class Reports(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        torch = SimpleNamespace(Tensor=Tensor, nn=SimpleNamespace(Module=Module), cuda=SimpleNamespace(is_available=lambda: False))
        self.enterContext(unittest.mock.patch.dict(sys.modules, {"torch": torch}))  # type: ignore[dict-item]
        self.enterContext(unittest.mock.patch.object(holdings, "NODE_SECONDS", 0.0))
        link.service()
        self.management = SimpleNamespace(current_loaded_models=[], STREAM_CAST_BUFFERS={}, STREAM_AIMDO_CAST_BUFFERS={})
        self.holdings = Holdings(self.management)

    def kinds(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client()["kinds"]  # type: ignore[assignment]
        return found

    def test_results_and_what_nodes_keep_are_told_at_the_end_of_a_prompt_and_when_dropped(self) -> None:
        both = Tensor(3 * KIB)
        node = SimpleNamespace(kept=[both, Tensor(2 * KIB)], name="x")
        one = executor(cache(([Tensor(KIB)], [{"samples": both}]), inner=cache([Tensor(8 * KIB)])), cache(node))
        self.holdings.end_prompt(one)
        self.assertEqual((12 * KIB, 2 * KIB),
                         (self.kinds()["results"]["anonymous_bytes"], self.kinds()["state"]["anonymous_bytes"]))
        loaded = model(100)
        loaded.model.model = Module(Tensor(100))
        self.management.current_loaded_models = [loaded]
        keeps = SimpleNamespace(model=loaded.model.model, upscaler=Module(Tensor(7 * KIB)))
        self.holdings.end_prompt(executor(cache(), cache(keeps)))
        self.assertEqual(7 * KIB, self.kinds()["state"]["anonymous_bytes"])
        self.management.current_loaded_models = []
        self.holdings.dropped(executor(cache()))
        self.assertEqual(0, self.kinds()["results"]["anonymous_bytes"])

    def test_models_of_the_ledger_lie_in_memory_or_in_pages_that_are_shared(self) -> None:
        self.management.current_loaded_models = [model(100), model(50, _penstock_shared=[(lambda: self, 30), (lambda: None, 7)]),
                                                 SimpleNamespace(model=None, device=CPU)]
        self.holdings.dropped()
        weights = self.kinds()["weights"]
        self.assertEqual((120, 30, 0), (weights["anonymous_bytes"], weights["devices"]["host"], weights["disk_bytes"]))

    def test_a_stand_in_is_no_model(self) -> None:
        stand_in = model(100)
        stand_in.model._penstock_stand_in = True
        self.management.current_loaded_models = [stand_in]
        self.holdings.dropped()
        self.assertEqual(0, self.kinds()["weights"]["anonymous_bytes"])

    def test_pages_host_buffers_and_the_rest_that_lies_in_files(self) -> None:
        vbar = model_vbar.ModelVBAR(8 * MIB, 0)
        allocation = vbar.alloc(2 * PAGE)
        model_vbar.vbar_fault(allocation)
        apart, beside = host_buffer.HostBuffer(0, 0, MIB), host_buffer.HostBuffer(0, 0, MIB)
        for buffer, nbytes in ((apart, MIB), (beside, 2 * PAGE)):
            buffer.extend(nbytes)
        one = model(4 * MIB, 2 * PAGE + 5, True, Device("cpu", 0), model_loaded_weight_memory=5,
                    dynamic_pins={"cpu": {"weights": (apart, []), "weights-loaded": (beside, [])}})
        one.model.load_device, one.model._vbar_get = "cpu", lambda: vbar
        self.management.current_loaded_models = [one]
        self.holdings.dropped()
        weights = self.kinds()["weights"]
        self.assertEqual({"host": 2 * PAGE}, weights["devices"])
        # What is pinned beside its pages was not on the disk alone to begin with.
        self.assertEqual((2 * MIB, 3 * MIB - 2 * PAGE - 5), (weights["locked_host_bytes"], weights["disk_bytes"]))
        one.model.model_size = lambda: PAGE
        self.holdings.dropped()
        self.assertEqual(0, self.kinds()["weights"]["disk_bytes"])
        model_vbar.vbar_unpin(allocation)

    def test_pages_that_another_process_has_too_are_not_on_the_disk(self) -> None:
        path, together = self.daemon.folder / "model.safetensors", self.processes()
        mine = filed_model(path, 12, 200 * KIB)
        mine.load()
        mine.forward()
        ready, go = together.Event(), together.Event()
        self.worker(workers.share, str(self.daemon.socket), "host", path, 200 * KIB, (), ready, go)
        self.assertTrue(ready.wait(30))
        self.assertTrue(daemon.wait_until(lambda: mine.vbar.loaded_size() == 0), "nothing is this process's alone")
        one = model(mine.nbytes, mine.vbar.loaded_size(), True, Device("cpu", 0))
        one.model._vbar_get = lambda: mine.vbar
        self.management.current_loaded_models = [one]
        self.holdings.dropped()
        weights = self.kinds()["weights"]
        self.assertGreaterEqual(weights["devices"]["host"], mine.nbytes)
        self.assertEqual(0, weights["disk_bytes"])

    def test_cast_buffers_are_told_as_they_were_before_they_went(self) -> None:
        buffer = vram_buffer.VRAMBuffer(MIB, 0)
        buffer.get(100 * KIB)
        self.management.STREAM_AIMDO_CAST_BUFFERS[None] = buffer
        self.management.STREAM_CAST_BUFFERS[None] = Tensor(KIB)
        del buffer
        self.holdings.before_drop()
        self.management.STREAM_AIMDO_CAST_BUFFERS.clear()
        self.management.STREAM_CAST_BUFFERS.clear()
        self.holdings.end_node()
        self.assertEqual(101 * KIB, self.kinds()["carry"]["anonymous_bytes"])
        self.holdings.end_prompt(executor(cache()))
        self.assertEqual(0, self.kinds()["carry"]["anonymous_bytes"])

    def on_a_gpu(self, step: Any) -> dict[tuple[str, str | None], int]:
        """What is told of devices at a step, on a GPU that torch uses. `self.allocated` and `self.segments` are torch's."""
        torch: Any = sys.modules["torch"]
        torch.cuda = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 2,
                                     memory_allocated=lambda index: self.allocated, memory_reserved=lambda index: 1500,
                                     memory_snapshot=lambda: self.segments)
        told: list[Any] = []
        with unittest.mock.patch.multiple(devices, id_of=lambda index: {0: "cuda-1", None: "host"}.get(index),
                                          ours=lambda index: self.ours), \
                unittest.mock.patch.object(safe_points, "with_service", lambda action: action(SimpleNamespace(
                    report=lambda holdings, timeout: told.extend(holdings)))):
            step()
        return {(one.kind, one.device): one.nbytes for one in told if one.place == "device"}

    ours = False
    allocated = 1000
    segments = [{"device": 0, "segment_pool_id": pool, "total_size": total, "allocated_size": allocated}
                for pool, total, allocated in (((0, 0), 1200, 900), ((0, 1), 200, 80), ((0, 2), 100, 20))]

    def test_on_a_gpu_pools_of_graphs_are_carry_the_rest_of_torch_s_memory_work_and_what_it_keeps_other(self) -> None:
        gpu = Device("cuda", 0)
        self.management.current_loaded_models = [model(400, 300, device=gpu)]
        cached = executor(cache([Tensor(50, gpu)], Tensor(7, Device("cuda", 1))))
        self.assertEqual({("weights", "cuda-1"): 300, ("weights", "host"): 0, ("results", "cuda-1"): 50,
                          ("carry", "cuda-1"): 300, ("work", "cuda-1"): 550, ("other", "cuda-1"): 300},
                         self.on_a_gpu(lambda: self.holdings.end_prompt(cached)))

    def test_graphs_and_work_of_a_node_are_told_as_they_were_before_they_went(self) -> None:
        def node_ends() -> None:
            self.holdings.before_drop()
            self.segments, self.allocated = [], 0
            self.holdings.end_node()

        self.assertEqual({("carry", "cuda-1"): 300, ("work", "cuda-1"): 900, ("other", "cuda-1"): 300}, self.on_a_gpu(node_ends))
        after = self.on_a_gpu(lambda: self.holdings.end_prompt(executor(cache())))
        self.assertEqual((0, 0), (after["carry", "cuda-1"], after["work", "cuda-1"]))

    def test_weights_that_are_loaded_without_pages_are_no_work(self) -> None:
        one = model(700, 600, dynamic=True, device=Device("cuda", 0), model_loaded_weight_memory=200)
        self.management.current_loaded_models = [one]
        for ours, weights in ((False, 600), (True, 200)):
            self.ours = ours
            found = self.on_a_gpu(self.holdings.dropped)
            self.assertEqual((weights, 1000 - 100 - 200), (found["weights", "cuda-1"], found["work", "cuda-1"]))

    def test_an_allocator_that_can_not_tell_of_pools_is_no_obstacle(self) -> None:
        def fails() -> None:
            raise RuntimeError

        def broken() -> None:
            sys.modules["torch"].cuda.memory_snapshot = fails  # type: ignore[attr-defined]
            self.holdings.dropped()

        found = self.on_a_gpu(broken)
        self.assertEqual((0, 1000), (found["carry", "cuda-1"], found["work", "cuda-1"]))

    def test_reports_at_ends_of_nodes_are_rare(self) -> None:
        with unittest.mock.patch.object(holdings, "NODE_SECONDS", 3600.0):
            self.holdings.dropped()
            self.management.current_loaded_models = [model(100)]
            self.holdings.before_drop()
            self.holdings.end_node()
            self.assertEqual(0, self.kinds()["weights"]["anonymous_bytes"])
            self.holdings.end_prompt(executor(cache()))
            self.assertEqual(100, self.kinds()["weights"]["anonymous_bytes"])

    def test_a_service_that_does_not_answer_is_left_alone_for_a_while(self) -> None:
        asked = unittest.mock.Mock(side_effect=errors.DeadlineError("no answer"))
        with unittest.mock.patch.object(link, "_service", SimpleNamespace(report=asked, devices=())), \
                self.assertLogs("penstock", "WARNING"), unittest.mock.patch("penstock_comfyui.link._said", set()):
            for _ in range(3):
                self.holdings.dropped()
        self.assertEqual(1, asked.call_count)
        self.assertIsNone(link.present())

    def test_nothing_fails_where_something_has_changed_its_shape_or_the_service_is_away(self) -> None:
        self.management.current_loaded_models = [SimpleNamespace(model=object(), device=CPU)]
        with self.assertLogs("penstock", "WARNING"):
            self.holdings.end_prompt(SimpleNamespace())
        self.assertNotIn("weights", self.kinds())
        link.reset("/nonexistent")
        self.holdings.end_prompt(executor(cache()))
        gc.collect()


if __name__ == "__main__":
    unittest.main()
