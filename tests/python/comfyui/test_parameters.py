# SPDX-License-Identifier: Apache-2.0
"""Which of a model's weights show a file's pages, and which are copies of its own. Needs torch."""

from __future__ import annotations

import gc
import struct
import unittest
from collections import OrderedDict
from typing import Any

from comfyui.test_torch import WITHOUT, WithReads, torch, write_tensors
from penstock_comfyui.holdings import shared_bytes

SIDE = 16  # Rows of 64 bytes.


@unittest.skipIf(torch is None, WITHOUT)
class Parameters(WithReads):
    def setUp(self) -> None:
        super().setUp()
        self.file({name: "F32" for name in ("0.weight", "1.weight")})

    def file(self, dtypes: dict[str, str]) -> None:
        """Square matrices."""
        gc.collect()
        forms = {"F32": "f", "F16": "e"}
        write_tensors(self.path, {name: (dtype, [SIDE, SIDE], struct.pack(f"<{SIDE * SIDE}{forms[dtype]}",
                                                                        *(number + index % 7 for index in range(SIDE * SIDE))))
                                  for number, (name, dtype) in enumerate(dtypes.items())})

    def two(self, *dtypes: Any) -> Any:
        return torch.nn.Sequential(*(torch.nn.Linear(SIDE, SIDE, bias=False, dtype=one) for one in dtypes))

    def shared(self, model: Any, given: dict[str, Any]) -> list[bool]:
        """Of each weight whether it is the given one; it is equal to it in any case."""
        own = dict(model.named_parameters())
        for name, one in given.items():
            if name in own:
                self.assertTrue(torch.equal(own[name].to(one.dtype), one), name)
        return [own[name].data_ptr() == one.data_ptr() for name, one in given.items() if name in own]

    def test_each_model_that_comfyui_assigns_to_with_dynamic_vram_takes_what_is_equal(self) -> None:
        comfy = self.comfy
        ways = {
            "diffusion": lambda model, given: comfy.model_base.BaseModel(model).load_model_weights(
                {f"x.{name}": one for name, one in given.items()}, "x."),
            "text": lambda model, given: comfy.sd.CLIP(model).load_sd(given),
            "whole": lambda model, given: comfy.sd.CLIP(model).load_sd(given, full_model=True),
            "decoder": comfy.sd.VAE,
            "vision": lambda model, given: comfy.clip_vision.ClipVisionModel(model).load_sd(given),
            "background": lambda model, given: comfy.bg_removal_model.BackgroundRemovalModel(model).load_sd(given),
        }
        for name, load in ways.items():
            with self.subTest(name):
                given, model = self.load(), self.two(torch.float32, torch.float32)
                load(model, given)
                self.assertEqual([True, True], self.shared(model, given))
                self.assertEqual([True, True], [one.requires_grad for one in model.parameters()])
                if name != "diffusion":
                    self.assertEqual(2 * SIDE * SIDE * 4, shared_bytes(model))
                del given, model
                gc.collect()
        self.assertEqual([], self.plain)

    def test_what_a_model_takes_is_told_as_the_services(self) -> None:
        model = self.comfy.model_base.BaseModel(self.two(torch.float32, torch.float16))
        model.load_model_weights(self.load())
        self.assertEqual(SIDE * SIDE * 4, shared_bytes(model))
        model.diffusion_model.half()  # As ComfyUI moves a model to a GPU.
        self.assertEqual(0, shared_bytes(model))

    def test_modules_of_another_dtype_are_copied_and_no_others(self) -> None:
        self.file({"0.weight": "F16", "1.weight": "F32"})
        given, model = self.load(), self.two(torch.float32, torch.float32)
        self.comfy.sd.VAE(model, given)
        self.assertEqual([False, True], self.shared(model, given))

    def test_weights_that_are_two_modules_are_copied(self) -> None:
        given, model = self.load(), self.two(torch.float32, torch.float32)
        model[1].weight = model[0].weight
        self.comfy.sd.VAE(model, {"0.weight": given["0.weight"]})
        self.assertIs(model[0].weight, model[1].weight)
        self.assertTrue(torch.equal(model[1].weight, given["0.weight"]))
        self.assertNotEqual(model[0].weight.data_ptr(), given["0.weight"].data_ptr())

    def test_a_module_that_loads_another_one_leaves_ties_as_they_are(self) -> None:
        class Outer(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self, inner: Any) -> None:
                super().__init__()
                self.inner = inner

            def _load_from_state_dict(self, state_dict: Any, prefix: str, *_: Any) -> None:
                self.inner.load_state_dict({"weight": state_dict[prefix + "weight"]})

        given, tied = self.load(), self.two(torch.float32, torch.float32)
        tied[1].weight = tied[0].weight
        model = torch.nn.Sequential(Outer(torch.nn.Linear(SIDE, SIDE, bias=False)), tied)
        self.comfy.sd.VAE(model, {"0.weight": given["0.weight"], "1.0.weight": given["1.weight"]})
        self.assertEqual(given["0.weight"].data_ptr(), model[0].inner.weight.data_ptr())
        self.assertIs(tied[0].weight, tied[1].weight)
        self.assertTrue(torch.equal(tied[1].weight, given["1.weight"]))

    def test_one_tensor_is_no_two_weights_of_a_module(self) -> None:
        row = self.load()["0.weight"][0]
        norm = torch.nn.LayerNorm(SIDE)
        self.comfy.sd.VAE(norm, {"weight": row, "bias": row})
        self.assertTrue(torch.equal(norm.weight, row) and torch.equal(norm.bias, row))
        self.assertNotEqual(norm.weight.data_ptr(), norm.bias.data_ptr())

    def test_no_two_models_have_one_tensor(self) -> None:
        given, first, second = self.load(), self.two(torch.float32, torch.float32), self.two(torch.float32, torch.float32)
        self.comfy.sd.VAE(first, {"0.weight": given["0.weight"][:], "1.weight": given["1.weight"]})
        self.comfy.sd.VAE(second, given)
        self.assertEqual(([True, True], [False, False]), (self.shared(first, given), self.shared(second, given)))
        with torch.no_grad():
            first[0].weight.fill_(3)
        self.assertNotEqual(3, float(second[0].weight[0, 0].detach()))

    def test_parts_are_taken_where_they_lie_as_torch_would_put_them(self) -> None:
        half = SIDE // 2
        whole = self.load()["0.weight"]
        for part, taken in ((whole[:half], True), (whole[half:], True), (whole.t()[:half], False), (whole[1:half + 1], False)):
            model = torch.nn.Linear(SIDE, half, bias=False)
            self.comfy.sd.VAE(model, {"weight": part})
            self.assertEqual([taken], self.shared(model, {"weight": part}))
            self.assertTrue(model.weight.is_contiguous())

    def test_what_comfyui_or_anybody_else_loads_otherwise_is_copied(self) -> None:
        given, model = self.load(), self.two(torch.float32, torch.float32)
        model.load_state_dict(given)
        self.assertEqual([False, False], self.shared(model, given))
        self.comfy.sd.VAE(model, {name: one.clone() for name, one in given.items()})
        self.assertEqual([False, False], self.shared(model, given))
        self.assertEqual([], [module for module in model.modules() if module._load_state_dict_pre_hooks])

    def test_a_load_that_fails_leaves_nothing_behind(self) -> None:
        given: Any = OrderedDict(self.load())
        given._metadata = {"": {}, "0": {"version": 1}, "1": {}}
        model = self.two(torch.float32, torch.float32)
        model[1] = torch.nn.Linear(SIDE + 1, SIDE, bias=False)
        with self.assertRaises(RuntimeError):
            self.comfy.sd.VAE(model, given)
        self.assertEqual({"": {}, "0": {"version": 1}, "1": {}}, given._metadata)
        self.assertEqual([], [module for module in model.modules() if module._load_state_dict_pre_hooks])
        other = self.two(torch.float32, torch.float32)
        other.load_state_dict(given)
        self.assertEqual([False, False], self.shared(other, given))


if __name__ == "__main__":
    unittest.main()
