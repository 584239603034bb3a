# SPDX-License-Identifier: Apache-2.0
"""Tensors over the seam's addresses, and the read seam with stand-ins for ComfyUI's modules. Needs torch."""

from __future__ import annotations

import gc
import json
import struct
import sys
import threading
import types
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import penstock
from comfyui.seam import MIB, PAGE, WithSeam, daemon
from penstock_comfyui.link import link
from penstock_comfyui.surface import host_buffer, model_vbar, vram_buffer

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

WITHOUT = "requires torch"


def write_tensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    """Each with its dtype and shape."""
    header: dict[str, Any] = {"__metadata__": {"a": "b"}}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(b"".join([struct.pack("<Q", len(text)), text, *(data for _, _, data in tensors.values())]))


def write_model(path: Path, dtype: str = "F32") -> None:
    size = {"F32": 4, "F4": 1}[dtype]
    write_tensors(path, {"w": (dtype, [4, 4] if size == 4 else [4, 8], struct.pack("<16f", *range(16))[:16 * size])})


@unittest.skipIf(torch is None, WITHOUT)
class Tensors(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        from penstock_comfyui.surface import torch as surface

        self.surface = surface

    def test_a_tensor_shows_its_allocation_and_keeps_the_vbar(self) -> None:
        vbar = model_vbar.ModelVBAR(4 * MIB, 0)
        part = vbar.alloc(100)
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        tensor = self.surface.aimdo_to_tensor(part, torch.device("cpu", 0))
        tensor.fill_(7)
        self.assertEqual((100, part[1], torch.uint8), (tensor.numel(), tensor.data_ptr(), tensor.dtype))
        self.assertEqual([0, PAGE], [tensor.data_ptr() - part[1], vbar.loaded_size()])
        del vbar, part
        gc.collect()
        self.assertEqual(700, int(tensor.sum()))
        del tensor
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))

    def test_what_must_not_be_written_is_written_elsewhere(self) -> None:
        vbar = model_vbar.ModelVBAR(4 * MIB, 0)
        part = vbar.alloc(100)
        with unittest.mock.patch.object(vbar._pages, "is_refused", {part[1]}.__contains__):
            tensor = self.surface.aimdo_to_tensor(part, "cpu")
        tensor.fill_(7)
        self.assertEqual((100, torch.uint8), (tensor.numel(), tensor.dtype))
        self.assertFalse(vbar.base_addr <= tensor.data_ptr() < vbar.base_addr + vbar.max_size)

    def test_host_buffers_and_cast_buffers_are_shown_too(self) -> None:
        buffer = host_buffer.HostBuffer(1000)
        shown = self.surface.hostbuf_to_tensor(buffer)
        self.assertEqual((1000, buffer.get_raw_address()), (shown.numel(), shown.data_ptr()))
        cast = vram_buffer.VRAMBuffer(MIB, 0)
        self.assertEqual(10, self.surface.aimdo_to_tensor(cast.get(10, 5), "cpu").numel())
        self.assertEqual(0, self.surface.hostbuf_to_tensor(host_buffer.HostBuffer(0)).numel())


class Model:
    """As much of a BaseModel as the seam looks at."""

    def __init__(self, model: Any) -> None:
        self.diffusion_model = model

    def load_model_weights(self, sd: Any, unet_prefix: str = "", assign: bool = False) -> None:
        given = {name[len(unet_prefix):]: one for name, one in sd.items() if name.startswith(unet_prefix)}
        self.diffusion_model.load_state_dict(given, strict=False, assign=assign)


class Encoder:
    """CLIP, as far as that goes."""

    def __init__(self, model: Any) -> None:
        self.cond_stage_model = model

    def load_sd(self, sd: Any, full_model: bool = False) -> Any:
        return self.cond_stage_model.load_state_dict(sd, strict=False, assign=False)


class Decoder:
    def __init__(self, model: Any, sd: Any) -> None:
        self.first_stage_model = model
        model.load_state_dict(sd, strict=False, assign=False)


class OfImages:
    """ClipVisionModel and BackgroundRemovalModel."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def load_sd(self, sd: Any) -> Any:
        return self.model.load_state_dict(sd, strict=False, assign=False)


@unittest.skipIf(torch is None, WITHOUT)
class WithReads(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.daemon.folder / "m.safetensors"
        write_model(self.path)
        self.plain: list[Any] = []
        self.utils = SimpleNamespace(load_torch_file=self.own_loader, DISABLE_MMAP=False)
        modules = {
            "comfy": types.ModuleType("comfy"), "comfy.utils": self.utils,
            "comfy.memory_management": SimpleNamespace(aimdo_enabled=False),
            "comfy.clip_vision": SimpleNamespace(load_torch_file=self.utils.load_torch_file,
                                                       ClipVisionModel=type("ClipVisionModel", (OfImages,), {})),
            "comfy.bg_removal_model": SimpleNamespace(BackgroundRemovalModel=type("BackgroundRemovalModel", (OfImages,), {})),
            "comfy.model_base": SimpleNamespace(BaseModel=type("BaseModel", (Model,), {})),
            "comfy.sd": SimpleNamespace(CLIP=type("CLIP", (Encoder,), {}), VAE=type("VAE", (Decoder,), {})),
            "comfy_aimdo.control": SimpleNamespace(__name__="penstock_comfyui.surface.control"),
        }
        self.enterContext(unittest.mock.patch.dict(sys.modules, modules))
        from penstock_comfyui import reads

        reads.install()
        reads.install()  # Once is enough.
        self.comfy = SimpleNamespace(**{name.rpartition(".")[2]: one for name, one in modules.items()})

    def own_loader(self, ckpt: Any, safe_load: bool = False, device: Any = None, return_metadata: bool = False) -> Any:
        self.plain.append((ckpt, safe_load, device, return_metadata))
        return ({}, None) if return_metadata else {}

    def load(self, **options: Any) -> Any:
        return self.utils.load_torch_file(str(self.path), **options)


class ReadsBesideGpus(WithReads):
    kind = "cuda"

    def test_tensors_of_host_memory_are_never_pages_of_a_gpu(self) -> None:
        self.enterContext(unittest.mock.patch("penstock_comfyui.link._said", set()))
        with self.assertLogs("penstock", "WARNING") as said:
            self.assertEqual({}, self.load())
        self.assertEqual(1, len(self.plain))
        self.assertIn("[device.host]", said.output[0])
        self.assertEqual(0, self.daemon.device()["resident_bytes"])


class Reads(WithReads):
    def test_a_model_without_the_method_leaves_reads_alone(self) -> None:
        from penstock_comfyui import reads

        self.utils.load_torch_file = self.own_loader
        lacking = SimpleNamespace(BaseModel=type("BaseModel", (), {}))
        with unittest.mock.patch.dict(sys.modules, {"comfy.model_base": lacking}), self.assertRaises(AttributeError):
            reads.install()
        self.assertEqual(self.own_loader, self.utils.load_torch_file)

    def test_tensors_and_metadata_come_from_the_service(self) -> None:
        tensors, metadata = self.load(return_metadata=True)
        self.assertEqual(({"a": "b"}, [], 120.0), (metadata, self.plain, float(tensors["w"].sum())))
        self.assertEqual(0, tensors["w"].data_ptr() % 64)
        self.assertGreater(self.client()["pinned_bytes"], 0)
        del tensors
        gc.collect()
        self.assertEqual(0, self.client()["pinned_bytes"])

    def test_a_service_that_stops_in_the_middle_of_a_load_is_not_waited_for(self) -> None:
        from penstock_comfyui import reads

        opened = penstock.Service.open

        def open_and_stop(service: penstock.Service, *arguments: Any) -> Any:
            checkpoint = opened(service, *arguments)
            self.assertEqual(0, checkpoint.resident_bytes)
            self.stop_service()
            return checkpoint

        self.enterContext(unittest.mock.patch.multiple("penstock_comfyui.link", QUESTION_SECONDS=0.2, HEARD_SECONDS=0.0))
        with unittest.mock.patch.object(penstock.Service, "open", open_and_stop), \
                unittest.mock.patch.object(reads, "SIGN_SECONDS", 0.2):
            self.load()  # The service stands still when this returns.
        self.assertEqual((1, None), (len(self.plain), link.present()))

    def test_a_file_that_does_not_come_is_read_by_comfyui(self) -> None:
        from penstock_comfyui import reads

        with unittest.mock.patch.object(penstock.Checkpoint, "pin", side_effect=penstock.DeadlineError("late")) as pin, \
                unittest.mock.patch.object(reads, "LOAD_SECONDS", 0), self.assertLogs("penstock", "WARNING") as said:
            self.load()
        self.assertEqual((1, 1), (pin.call_count, len(self.plain)))
        self.assertIn("deadline, late", said.output[0])
        self.assertIsNotNone(link.present())

    def test_what_is_written_stays_here(self) -> None:
        first = self.load()["w"]
        first.fill_(9)
        del first
        gc.collect()
        self.assertEqual(120.0, float(self.load()["w"].sum()))

    def test_two_loads_have_the_same_frames_and_never_see_each_others_writes(self) -> None:
        first, second = self.load()["w"], self.load()["w"]
        self.assertEqual([], self.plain)
        self.assertEqual(PAGE, self.resident())
        self.assertNotEqual(first.data_ptr(), second.data_ptr())
        first.fill_(9)
        self.assertEqual((144.0, 120.0), (float(first.sum()), float(second.sum())))
        second[1:].fill_(7)
        view = first[1:]
        del first  # Part of it is enough.
        third = self.load()["w"]
        self.assertEqual((108.0, 90.0, 120.0), (float(view.sum()), float(second.sum()), float(third.sum())))
        del view
        self.assertEqual((90.0, 120.0), (float(second.sum()), float(self.load()["w"].sum())))
        self.assertEqual([], self.plain)

    def test_two_loads_are_given_back_once_nobody_looks_at_either(self) -> None:
        from penstock_comfyui import lent_files

        self.daemon.ask("evict", "--all")
        both = [self.load(), self.load()]
        for _ in range(2):
            lent_files.give_back()
            self.assertEqual(PAGE, self.resident())
            self.assertEqual(120.0, float(both.pop(0)["w"].sum()))
        self.assertTrue(daemon.wait_until(lambda: not lent_files.give_back() and self.resident() == 0))
        self.assertEqual([], lent_files._files)

    def test_of_two_loads_at_once_each_has_its_own(self) -> None:
        begun, go_on = threading.Event(), threading.Event()
        patiently = link.patiently

        def slow(service: Any, call: Any) -> Any:
            if not begun.is_set():
                begun.set()
                go_on.wait(20)
            return patiently(service, call)

        with unittest.mock.patch.object(link, "patiently", slow):
            found: list[Any] = []
            other = threading.Thread(target=lambda: found.append(self.load()["w"]))
            other.start()
            self.assertTrue(begun.wait(20))
            mine = self.load()["w"]
            go_on.set()
            other.join()
        mine.fill_(9)
        self.assertEqual(([], 120.0), (self.plain, float(found[0].sum())))

    def test_holders_of_their_own_reference_are_served_too(self) -> None:
        self.assertIs(sys.modules["comfy.clip_vision"].load_torch_file, self.utils.load_torch_file)

    def test_other_files_options_and_dtypes_go_to_comfyui(self) -> None:
        other = self.daemon.folder / "m.ckpt"
        write_model(self.daemon.folder / "f4.safetensors", "F4")
        f4 = self.daemon.folder / "f4.safetensors"
        meta, path = torch.device("meta"), str(self.path)
        self.assertEqual({}, self.utils.load_torch_file(str(other), safe_load=True))
        self.assertEqual(({}, None), self.load(device=meta, return_metadata=True))
        self.utils.load_torch_file(str(f4), True, torch.device("cpu"), True)
        self.utils.DISABLE_MMAP = True
        self.load(safe_load=True, return_metadata=True)
        self.utils.DISABLE_MMAP = False
        sys.modules["comfy.memory_management"].aimdo_enabled = True
        self.load()
        self.assertEqual([(str(other), True, None, False), (path, False, meta, True), (str(f4), True, torch.device("cpu"), True),
                          (path, True, None, True), (path, False, None, False)], self.plain)

    def test_options_that_comfyui_gives_change_nothing_for_what_is_ours(self) -> None:
        for options in ({"safe_load": True}, {"device": torch.device("cpu")}, {"device": None, "return_metadata": False}):
            self.assertEqual({"w"}, set(self.load(**options)))
        self.assertEqual([], self.plain)

    def test_a_refusal_is_logged_once_with_its_reason(self) -> None:
        self.path.write_bytes(b"<!DOCTYPE html>")
        with self.assertLogs("penstock", "WARNING") as said:
            self.load()
            self.load()
        self.assertEqual((2, 1), (len(self.plain), len(said.output)))
        self.assertIn("html", said.output[0])

    def resident(self) -> int:
        return int(self.daemon.device()["resident_bytes"])

    def falls_to(self, nbytes: int) -> None:
        """The device's figures follow by some milliseconds."""
        self.assertTrue(daemon.wait_until(lambda: self.resident() == nbytes), self.resident())

    def test_what_nobody_looks_at_leaves_the_device_when_comfyui_lets_go(self) -> None:
        from penstock_comfyui import lent_files

        self.daemon.ask("evict", "--all")
        pages = ("U8", [3 * PAGE], bytes(3 * PAGE))
        write_tensors(self.path, {"one": pages, "two": pages})
        tensors = self.load()
        held = self.resident()
        self.assertGreaterEqual(held, 6 * PAGE)
        lent_files.give_back()
        self.assertEqual(held, self.resident())
        del tensors["two"]
        lent_files.give_back()
        self.falls_to(held - 3 * PAGE)  # Its last page is the other one's first, or none is left over.
        self.assertEqual(0, int(tensors["one"].sum()))
        tensors["self"] = tensors  # As a model that refers to itself.
        del tensors
        lent_files.give_back()
        self.falls_to(0)
        self.assertEqual([], lent_files._files)

    def test_what_others_have_open_stays_whole(self) -> None:
        from penstock_comfyui import lent_files

        self.daemon.ask("evict", "--all")
        other = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        for keep in (True, False):
            tensors = self.load()
            with other.open(self.path):
                if not keep:
                    tensors.clear()
                lent_files.give_back()
                self.assertEqual(PAGE, self.resident())
            tensors.clear()
            lent_files.give_back()
            self.falls_to(0)

    def test_without_a_service_nothing_is_given_back_and_nothing_fails(self) -> None:
        from penstock_comfyui import lent_files

        self.load().clear()
        self.assertEqual(0, self.daemon.stop())
        lent_files.give_back()

    def test_without_a_service_comfyui_reads(self) -> None:
        self.assertEqual(0, self.daemon.stop())
        self.load()
        self.assertEqual(1, len(self.plain))
        self.restart()
        self.assertTrue(daemon.wait_until(lambda: link.service() is not None))
        self.assertEqual({"w"}, set(self.load()))
        self.assertEqual(1, len(self.plain))


if __name__ == "__main__":
    unittest.main()
