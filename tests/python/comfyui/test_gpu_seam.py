# SPDX-License-Identifier: Apache-2.0
"""The suites of the pager seam once more, on GPUs of fake drivers, which end the process where a driver's rule is broken."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import threading
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import penstock
from comfyui import seam
from comfyui.recorded_caller import model
from comfyui.seam import GPU_SCALE, WithSeam, daemon, peek, poke
from penstock_comfyui import boundaries, devices, gpu, reserve, theirs, work
from penstock_comfyui.link import link
from penstock_comfyui.surface import control, host_buffer, model_vbar, vram_buffer

KIB, MIB, PAGE = (GPU_SCALE * size for size in (seam.KIB, seam.MIB, seam.PAGE))


def scaled(name: str) -> Any:
    """A module of tests once more, with the sizes of GPUs."""
    spec = importlib.util.spec_from_file_location(f"comfyui.on_gpu_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.multiple(seam, KIB=KIB, MIB=MIB, PAGE=PAGE):
        spec.loader.exec_module(module)
    return module


SUITES = {"test_caller": ("Caller", "SmallBudget", "TwoProcesses", "NegativeControls"),
          "test_seam": ("Faults", "Pins", "Room", "Buffers"), "test_page_out": ("PageOut",),
          "test_shared": ("Shared", "Once", "SmallBudget", "TwoProcesses"),
          "test_service_reads": ("ServiceReads",), "test_threads": ("Threads",), "test_two_models": ("TwoModels",)}


class TorchOver:
    """A stand-in for torch on the tests' GPU, with faults."""

    def __init__(self, kind: str, copies: bool = False, reads_wrong: bool = False, loses_writes: bool = False,
                 fails: bool = False) -> None:
        self.driver: Any = gpu.driver(kind)
        self.copies, self.reads_wrong, self.loses_writes, self.fails = copies, reads_wrong, loses_writes, fails

    def zeros(self, *_: Any, device: str) -> None:
        assert device == "cuda:0"

    def as_tensor(self, shown: Any, device: str) -> Any:
        if self.fails:
            raise RuntimeError("no kernel image")
        (size,), (address, _) = (shown.__cuda_array_interface__[key] for key in ("shape", "data"))

        def read() -> list[int]:
            data = ctypes.create_string_buffer(size)
            self.driver.copy_out(address, ctypes.addressof(data), size)
            return list(data.raw[::-1 if self.reads_wrong else 1])

        def fill(value: int) -> None:
            if not self.loses_writes:
                data = ctypes.create_string_buffer(bytes([value]) * size, size)
                self.driver.copy_in(ctypes.addressof(data), address, size)

        return SimpleNamespace(data_ptr=lambda: address + self.copies, tolist=read, fill_=fill)


class OnGpu(WithSeam):
    """What is other on a GPU."""

    def test_its_device_is_found_by_its_own_number(self) -> None:
        found = devices.on_gpu(0)
        assert found is not None
        self.assertEqual(self.kind, found.kind)
        self.assertFalse(devices.on_host(0))
        self.assertIsNone(devices.on_gpu(1))

    def test_a_file_goes_to_the_device_and_back(self) -> None:
        path = self.daemon.folder / "file"
        path.write_bytes(bytes(range(256)) * 150000)
        size = path.stat().st_size
        part = model_vbar.ModelVBAR(64 * MIB, 0).alloc(4 * MIB)
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        with open(path, "rb") as file:
            host_buffer.read_file_to_device(file, 5, 4 * MIB - 9, 0, part[1], 0)
            self.assertEqual(path.read_bytes()[5:][:4 * MIB - 9], peek(part[1], 4 * MIB - 9))
            buffer = host_buffer.HostBuffer(MIB)
            buffer.read_file_slice(file, size - 100, 100, offset=7, stream=0, device_ptr=part[1], device=0)
        self.assertEqual(path.read_bytes()[-100:], peek(part[1], 100))
        self.assertEqual(path.read_bytes()[-100:], ctypes.string_at(buffer.get_raw_address() + 7, 100))
        with open(self.daemon.folder / "out", "wb") as file:
            host_buffer.write_device_to_file(file, 0, 50, 0, part[1], 0)
        self.assertEqual(path.read_bytes()[-100:-50], (self.daemon.folder / "out").read_bytes())
        model_vbar.vbar_unpin(part)

    def test_a_cast_buffer_is_pages_that_nobody_takes(self) -> None:
        buffer = vram_buffer.VRAMBuffer(16 << 30, 0)
        _, address, _ = buffer.get(100 * KIB)
        poke(address, b"cast")
        self.assertEqual(address + 512, buffer.get(MIB, 512)[1])
        self.assertEqual(b"cast", peek(address, 4))
        self.assertEqual(5 * PAGE, self.client()["pinned_bytes"])
        beyond = buffer.get(9 * MIB)[1]  # The service has no room for it: the driver's own.
        self.assertNotEqual(address, beyond)
        poke(beyond + 9 * MIB - 4, b"last")
        self.assertEqual((b"cast", b"last"), (peek(address, 4), peek(beyond + 9 * MIB - 4, 4)))
        with self.assertRaises(RuntimeError):
            buffer.get(1, 16 << 30)
        one = model(40, 200 * KIB)
        one.load()
        one.forward()
        self.assertEqual(b"cast", peek(address, 4))
        del buffer, _
        self.assertTrue(daemon.wait_until(lambda: self.client()["pinned_bytes"] == 0))

    def register(self, address: int, size: int) -> int:
        """As ComfyUI does it; the driver's answer."""
        library = seam._fakes[self.kind]
        call = library.hipHostRegister if self.kind == "hip" else library.cuMemHostRegister_v2
        return int(call(ctypes.c_void_p(address), ctypes.c_size_t(size), 1))

    def test_what_is_added_is_registered_unless_it_is_not_to_be(self) -> None:
        buffer = host_buffer.HostBuffer(1 << 20, 0, 4 * MIB)
        address = buffer.get_raw_address()
        self.assertNotEqual(0, self.register(address, 1 << 20), "it is already")
        buffer.extend(1 << 20, register=False)
        self.assertEqual(0, self.register(address + (1 << 20), 1 << 20), "it is not")
        buffer.truncate(1 << 20)
        buffer.unregister(0)
        self.assertEqual(0, self.register(address, 1 << 20))
        with self.assertRaises(RuntimeError):
            buffer.register(0, 1 << 20)
        buffer.unregister(0)  # It still was, the first time.
        buffer.register(0, 1 << 20)
        with self.assertRaises(RuntimeError):
            buffer.register(0, 2 << 20)
        buffer.truncate(0)
        with self.assertRaises(RuntimeError):
            buffer.unregister(0)

    def test_what_goes_when_the_gpu_is_ours_no_more_is_registered_no_more(self) -> None:
        """Else whatever lies there next is taken for page-locked, and copied from after it has changed."""
        driver = devices.driver_of(0)
        assert driver is not None
        buffer = host_buffer.HostBuffer(0, 0, 8 << 20)
        address = buffer.extend(1 << 20)
        devices.forget()
        del buffer
        self.assertFalse(driver.unregister(address))

    def test_what_is_cut_off_a_host_buffer_is_registered_no_more(self) -> None:
        buffer = host_buffer.HostBuffer(0, 0, 4 * MIB)
        buffer.extend(size=1 << 20, register=False)
        address = buffer.get_raw_address()
        for _ in range(2):  # The second time it lies where the first one did.
            buffer.extend(size=1 << 20, register=False)
            buffer.extend(size=1 << 20, register=False)
            self.assertEqual([0, 0], [self.register(address + at, 1 << 20) for at in (1 << 20, 2 << 20)])
            buffer.truncate(1 << 20, do_unregister=True)
        self.assertEqual(0, self.register(address, 1 << 20))
        buffer.truncate(0, do_unregister=False)
        buffer.extend(size=1 << 20, register=False)
        self.assertNotEqual(0, self.register(address, 1 << 20), "it was to stay registered")
        del buffer
        gc.collect()
        self.assertEqual(0, self.register(address, 1 << 20), "a buffer that is gone is registered")
        self.assertNotEqual(0, self.register(address, 1 << 20), "the driver doesn't look at this rule")
        for driver in devices.drivers():
            driver.unregister(address)

    def test_another_thread_uses_it_as_well(self) -> None:
        one = model(4, 200 * KIB)
        one.load()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                seam.enter_context(self.kind)
                one.forward()
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)
        self.assertEqual([], failures)
        one.forward()
        self.assertEqual((4, 4), (one.counts.filled, one.counts.resident))

    def loading(self, work_bytes: int) -> Any:
        """ComfyUI's load of a model, with the boundaries around; `seen` is called in the middle of it."""
        self.seen: list[Any] = []
        self.enterContext(unittest.mock.patch.object(devices, "dynamic", lambda: True))
        management = SimpleNamespace(minimum_inference_memory=lambda: PAGE, reset_cast_buffers=lambda: None)
        nothing: Any = SimpleNamespace(publish=lambda: None, place=lambda: None, before_drop=lambda: None, end_node=lambda: None)

        def load(models: Any, memory_required: int) -> str:
            device = self.daemon.device()
            self.seen = [device["booked_bytes"], device["used_bytes"]]
            return "loaded"

        around = boundaries._around_load(load, management, nothing, nothing, boundaries._Loads())
        self.node_ends = boundaries._at_node_end(management.reset_cast_buffers, nothing)
        model = SimpleNamespace(load_device=SimpleNamespace(type="cuda", index=0))
        self.assertEqual("loaded", around([model], work_bytes))

    def test_own_weights_make_room_for_what_is_computed_before_it_is(self) -> None:
        vbar = model_vbar.ModelVBAR(64 * MIB, 0)
        part = vbar.alloc(8 * MIB)  # All of the device.
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        model_vbar.vbar_unpin(part)
        self.loading(3 * PAGE)
        self.assertEqual(4 * PAGE, self.seen[0])
        self.assertLessEqual(self.seen[1], 8 * MIB - 4 * PAGE)
        self.assertLessEqual(vbar.loaded_size(), 8 * MIB - 4 * PAGE)
        self.assertGreater(vbar.loaded_size(), 0)
        self.node_ends()
        self.assertEqual(0, self.daemon.device()["booked_bytes"])

    def test_weights_of_others_make_room_for_what_is_computed(self) -> None:
        other = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        table = other.private_table(64 * MIB)
        self.assertTrue(table.fault(0, 8 * MIB, 10))
        table.unpin(0, 8 * MIB)
        devices.wait_for(0)
        other.set_idle(True)
        self.loading(3 * PAGE)
        self.assertEqual(4 * PAGE, self.seen[0])
        self.assertLessEqual(table.mapped_bytes, 8 * MIB - 4 * PAGE)
        self.node_ends()

    def test_what_can_not_be_booked_is_computed_all_the_same_and_said_once(self) -> None:
        self.enterContext(unittest.mock.patch.object(work, "WAIT_SECONDS", 0.1))
        self.enterContext(unittest.mock.patch("penstock_comfyui.link._said", set()))
        with self.assertLogs("penstock", "WARNING") as said:
            self.loading(100 * MIB)
            self.loading(100 * MIB)
        self.assertEqual((1, 0), (len(said.output), self.seen[0]))
        self.assertIn("no room for what is computed", said.output[0])

    def test_while_the_service_is_away_new_models_are_theirs(self) -> None:
        class Theirs:
            def __init__(self, size: int, device: int) -> None:
                self.size = size

        asked: list[Any] = []
        found = {"control": SimpleNamespace(lib=object(), init_devices=lambda ids: asked.append(ids) or True),
                 "model_vbar": SimpleNamespace(ModelVBAR=Theirs, vbars_analyze=lambda device: 77)}
        self.enterContext(unittest.mock.patch.dict(theirs._found, found))
        self.addCleanup(control._ours.clear)
        self.addCleanup(theirs.later, {})
        self.addCleanup(reserve.keep_free, {})
        self.assertTrue(control.init_devices([(0, 5)]))
        one = model_vbar.ModelVBAR(4 * MIB, 0)
        part = one.alloc(PAGE)
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        model_vbar.vbar_unpin(part)
        self.assertEqual(([], PAGE + 77), (asked, model_vbar.vbars_analyze(0)))
        self.assertEqual(0, self.daemon.stop())
        self.assertTrue(daemon.wait_until(lambda: link.service() is None or link.away(OSError("gone"))))
        self.assertEqual(["Theirs"] * 2, [type(model_vbar.ModelVBAR(4 * MIB, 0)).__name__ for _ in range(2)])
        self.assertEqual([[(0, 5)]], asked)
        found["control"].init_devices = lambda ids: False
        theirs.later({0: 0})
        self.assertIsInstance(model_vbar.ModelVBAR(4 * MIB, 0), model_vbar.ModelVBAR)
        self.restart()
        self.assertTrue(daemon.wait_until(lambda: link.service() is not None))
        self.assertIsInstance(model_vbar.ModelVBAR(4 * MIB, 0), model_vbar.ModelVBAR)

    def test_gpus_are_left_to_others_on_request(self) -> None:
        with unittest.mock.patch.dict("os.environ", {devices.ON_GPUS: "0"}):
            devices.forget()
            self.assertIsNone(devices.on_gpu(0))
            self.assertTrue(link.service() is not None)

    def test_a_gpu_that_is_full_now_is_tried_again(self) -> None:
        self.enterContext(unittest.mock.patch("penstock_comfyui.gpu_trial.RETRY_SECONDS", 0))
        other = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        table = other.private_table(64 * MIB)
        self.assertTrue(table.fault(0, 8 * MIB, 10))
        with unittest.mock.patch.dict("os.environ", {devices.ON_GPUS: ""}), \
                unittest.mock.patch.dict("sys.modules", {"torch": TorchOver(self.kind)}):
            devices.forget()
            self.addCleanup(devices.forget)
            with self.assertNoLogs("penstock", "WARNING"):
                self.assertIsNone(devices.on_gpu(0))
                table.unpin(0, 8 * MIB)  # And the other isn't idle, so that nobody may take them.
                self.assertIsNone(devices.on_gpu(0))
            table.close()

            def is_ours() -> bool:
                other.run_revokes()  # Work on its pages may not have ended when it was closed.
                return devices.on_gpu(0) is not None

            self.assertTrue(daemon.wait_until(is_ours))

    def test_a_host_buffer_serves_a_gpu_that_is_not_ours(self) -> None:
        path = self.daemon.folder / "file"
        path.write_bytes(bytes(range(200)))
        part = model_vbar.ModelVBAR(64 * MIB, 0).alloc(PAGE)
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        self.assertIsNone(devices.on_gpu(1))
        buffer = host_buffer.HostBuffer(MIB)
        with open(path, "rb") as file:
            buffer.read_file_slice(file, 0, 200, device_ptr=part[1], device=1)
        self.assertEqual(path.read_bytes(), peek(part[1], 200))
        model_vbar.vbar_unpin(part)

    def tried(self, torch: Any) -> bool:
        """Is the GPU ours where nobody said so?"""
        modules = {"torch": torch} if torch is not None else {}
        with unittest.mock.patch.dict("os.environ", {devices.ON_GPUS: ""}), \
                unittest.mock.patch.dict("sys.modules", modules):
            devices.forget()
            self.addCleanup(devices.forget)
            once = devices.on_gpu(0)
            self.assertEqual(once, devices.on_gpu(0))
            return once is not None

    def test_a_gpu_is_ours_after_a_trial_with_torch(self) -> None:
        self.enterContext(unittest.mock.patch("penstock_comfyui.link._said", set()))
        self.assertTrue(self.tried(TorchOver(self.kind)))
        for torch, why in ((TorchOver(self.kind, copies=True), "torch copies them"),
                           (TorchOver(self.kind, reads_wrong=True), "torch reads other"),
                           (TorchOver(self.kind, loses_writes=True), "does not arrive"),
                           (TorchOver(self.kind, fails=True), "RuntimeError: no kernel")):
            with self.assertLogs("penstock", "WARNING") as said:
                self.assertFalse(self.tried(torch))
            self.assertEqual(1, len(said.output))
            self.assertIn(why, said.output[0])
        self.assertFalse(self.tried(SimpleNamespace()), "torch is not there")
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))


# What does not depend on the driver's rules: the time of everybody who runs these tests is worth something.
ON_ONE = ("SmallBudget", "Threads", "Once", "TwoModels")


def load_tests(loader: unittest.TestLoader, *_: Any) -> unittest.TestSuite:
    found = unittest.TestSuite()
    suites = [OnGpu, *(getattr(module, one) for name, ones in SUITES.items() for module in (scaled(name),) for one in ones)]
    for suite in suites:
        for kind in seam.FAKES:
            if kind == "hip" and suite.__name__ in ON_ONE:
                continue
            on_kind = type(f"{suite.__name__}On{kind.capitalize()}", (suite,), {"kind": kind, "__module__": suite.__module__})
            found.addTests(loader.loadTestsFromTestCase(on_kind))
    return found
