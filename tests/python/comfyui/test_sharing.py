# SPDX-License-Identifier: Apache-2.0
"""Which weights of a model are asked for as pieces of files, with modules and tensors as ComfyUI makes them. Needs torch."""

from __future__ import annotations

import json
import struct
import unittest
from types import SimpleNamespace
from typing import Any

from comfyui.seam import MIB, PAGE, WithSeam, peek
from penstock_comfyui.surface import model_vbar

try:
    import torch
    from penstock_comfyui import sharing
except ImportError:
    torch = None  # type: ignore[assignment]

SHAPE = (16, 32)
FLOATS = SHAPE[0] * SHAPE[1]


@unittest.skipIf(torch is None, "requires torch")
class Sharing(WithSeam):
    """A file of two tensors, "weight" as f32 and "bias" as f32, and a VBAR."""

    def setUp(self) -> None:
        super().setUp()
        self.vbar = model_vbar.ModelVBAR(8 * MIB, 0)
        self.numbers = torch.arange(FLOATS + SHAPE[0], dtype=torch.float32)
        self.file = self.write("m.safetensors", self.numbers)

    def write(self, name: str, numbers: Any) -> tuple[int, int]:
        """Its descriptor, and where its bytes begin."""
        size = numbers.element_size()
        kind = {torch.float32: "F32", torch.float16: "F16"}[numbers.dtype]
        ends = [0, FLOATS * size, numbers.numel() * size]
        header = {"weight": {"dtype": kind, "shape": list(SHAPE), "data_offsets": ends[:2]},
                  "bias": {"dtype": kind, "shape": [SHAPE[0]], "data_offsets": ends[1:]}}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = self.daemon.folder / name
        path.write_bytes(struct.pack("<Q", len(text)) + text + numbers.numpy().tobytes())
        opened = open(path, "rb")  # noqa: SIM115
        self.addCleanup(opened.close)
        return opened.fileno(), 8 + len(text)

    def tensor(self, first: int, *shape: int, file: tuple[int, int] | None = None, numbers: Any = None, filed: bool = True) -> Any:
        numbers = self.numbers if numbers is None else numbers
        descriptor, start = file or self.file
        count = 1
        for one in shape:
            count *= one
        made = numbers[first:first + count].clone().reshape(shape)
        if filed:
            made.untyped_storage()._comfy_tensor_file_slice = SimpleNamespace(
                file_ref=descriptor, offset=start + first * made.element_size(), size=made.numel() * made.element_size())
        return torch.nn.Parameter(made, requires_grad=False)

    def module(self, weight: Any, bias: Any = None, nbytes: int = PAGE) -> Any:
        one = torch.nn.Module()
        one.weight, one.bias = weight, bias
        one._v, one._v_signature = self.vbar.alloc(nbytes), None
        return one

    def plain(self) -> Any:
        return self.module(self.tensor(0, *SHAPE), self.tensor(FLOATS, SHAPE[0]))

    def share(self, *modules: Any) -> Any:
        root = torch.nn.Module()
        for number, one in enumerate(modules):
            root.add_module(str(number), one)
        sharing.share(root, self.vbar)
        return root

    def is_shared(self, module: Any) -> bool:
        return self.vbar._pages.is_shared(module._v[1])

    def fault(self, module: Any) -> bool:
        """Is it clean, as ComfyUI finds out by comparing?"""
        signature = model_vbar.vbar_fault(module._v)
        self.assertIsNotNone(signature)
        same = model_vbar.vbar_signature_compare(signature, module._v_signature)
        if same:
            self.assertTrue(torch.equal(module.weight.to(module._v_weight.dtype), module._v_weight))
        else:
            module._v_signature = signature
        model_vbar.vbar_unpin(module._v)
        return same

    def test_a_plain_module_lies_in_shared_pages_and_is_clean(self) -> None:
        one = self.plain()
        self.share(one)
        self.assertTrue(self.is_shared(one))
        self.assertTrue(self.fault(one))
        self.assertTrue(torch.equal(one.bias, one._v_bias))

    def test_a_module_without_bias_has_no_view_of_one(self) -> None:
        one = self.module(self.tensor(0, *SHAPE))
        self.share(one)
        self.assertTrue(self.fault(one))
        self.assertIsNone(one._v_bias)

    def test_a_tensor_of_no_file_is_not_clean(self) -> None:
        one, other = self.module(self.tensor(0, *SHAPE), self.tensor(FLOATS, SHAPE[0], filed=False)), self.plain()
        self.share(one, other)
        self.assertEqual([False, True], [self.fault(one), self.fault(other)])

    def test_nothing_of_a_file_shares_nothing(self) -> None:
        one = self.module(self.tensor(0, *SHAPE, filed=False))
        self.share(one)
        self.assertFalse(self.is_shared(one))
        self.assertFalse(self.fault(one))

    def test_a_part_of_a_tensor_of_a_file_is_not_taken_for_all_of_it(self) -> None:
        """As q of a qkv: a view with the storage of all three."""
        whole = self.tensor(0, *SHAPE)
        one, other = self.module(torch.nn.Parameter(whole[4:8], requires_grad=False)), self.plain()
        self.share(one, other)
        self.assertEqual([False, True], [self.fault(one), self.fault(other)])

    def test_a_function_on_a_weight_makes_pages_private_and_its_end_makes_them_clean(self) -> None:
        one = self.plain()
        self.share(one)
        self.assertTrue(self.fault(one))
        for name in ("weight_lowvram_function", "bias_lowvram_function", "weight_function", "bias_function"):
            with self.subTest(name):
                setattr(one, name, abs if "lowvram" in name else [abs])
                one._v_signature = None  # ComfyUI forgets it where patches change.
                self.assertFalse(self.fault(one))
                delattr(one, name)
                self.vbar.free_memory(1e30)
                self.vbar.prioritize()
                one._v_signature = None
                self.assertTrue(self.fault(one))

    def test_another_parameter_is_not_clean(self) -> None:
        one = self.plain()
        self.share(one)
        self.assertTrue(self.fault(one))
        one.weight = torch.nn.Parameter(one.weight + 1, requires_grad=False)
        one._v_signature = None
        self.assertFalse(self.fault(one))

    def test_f16_of_a_file_becomes_f32(self) -> None:
        numbers = self.numbers.to(torch.float16)
        file = self.write("half.safetensors", numbers)
        one = self.module(self.tensor(0, *SHAPE, file=file, numbers=numbers))
        one.weight._model_dtype = torch.float32
        self.share(one)
        self.assertTrue(self.fault(one))
        self.assertEqual((torch.float32, SHAPE), (one._v_weight.dtype, tuple(one._v_weight.shape)))
        signature = model_vbar.vbar_fault(one._v)
        self.assertEqual(numbers[:FLOATS].to(torch.float32).numpy().tobytes(), peek(one._v[1], 4 * FLOATS))
        self.assertIsNotNone(signature)
        model_vbar.vbar_unpin(one._v)

    def test_a_quantised_tensor_stays_comfyui_s(self) -> None:
        class Quantised(torch.Tensor):
            pass

        one, other = self.module(self.tensor(0, *SHAPE)), self.plain()
        one._parameters.pop("weight")
        one.weight = self.tensor(0, *SHAPE).data.as_subclass(Quantised)
        one.weight.untyped_storage()._comfy_tensor_file_slice = other.weight.untyped_storage()._comfy_tensor_file_slice
        self.share(one, other)
        self.assertEqual([False, True], [self.fault(one), self.fault(other)])

    def weight(self) -> Any:
        return self.module(self.tensor(0, *SHAPE))

    def bias(self) -> Any:
        return self.module(self.tensor(FLOATS, SHAPE[0]))

    def blocks(self, *blocks: tuple[Any, ...]) -> list[Any]:
        """Shares a model of these blocks; their ranges, which ComfyUI took for something else."""
        root = torch.nn.Module()
        for number, modules in enumerate(blocks):
            one = torch.nn.Module()
            for place, module in enumerate(modules):
                one.add_module(str(place), module)
            root.add_module(str(number), one)
            one._v_block = modules[0]._v
        made = list(root.children())
        root.get_dynamic_vram__units = lambda: (made[:1], [(one,) for one in made[1:]])
        sharing.share(root, self.vbar)
        return [one._v_block for one in made]

    def test_blocks_follow_their_modules(self) -> None:
        one, two, three, four = self.bias(), self.weight(), self.bias(), self.weight()
        found = self.blocks((two, four), (one, three))
        for block, modules in zip(found, ((two, four), (one, three))):
            self.assertTrue(all(self.is_shared(module) for module in modules))
            starts = sorted(module._v[1] for module in modules)
            self.assertEqual((self.vbar, starts[0], starts[1] + PAGE - starts[0]), block)

    def test_a_block_that_has_another_s_module_in_its_midst_is_none(self) -> None:
        found = self.blocks((self.weight(), self.bias()), (self.weight(),))
        self.assertEqual([True, False], [one is None for one in found])

    def test_a_block_that_lies_in_both_tables_is_none(self) -> None:
        late = self.module(self.tensor(0, *SHAPE, filed=False))
        found = self.blocks((self.weight(), late), (self.bias(),))
        self.assertEqual([True, False], [one is None for one in found])
        self.assertFalse(self.is_shared(late))

    def test_a_block_that_comfyui_does_not_list_is_none(self) -> None:
        one = self.plain()
        one._v_block = one._v
        self.share(one)
        self.assertIsNone(one._v_block)

    def test_blocks_that_can_not_be_told_are_none(self) -> None:
        one = self.plain()
        one._v_block = one._v
        one.get_dynamic_vram__units = lambda: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            sharing.share(one, self.vbar)
        self.assertTrue(self.is_shared(one))
        self.assertIsNone(one._v_block)

    def test_what_is_allocated_later_stays_where_it_is(self) -> None:
        one, late = self.plain(), self.plain()
        self.share(one)
        late._v = self.vbar.alloc(PAGE)
        self.share(one, late)
        self.assertEqual([True, False], [self.is_shared(one), self.is_shared(late)])

    def test_blocks_of_a_model_that_shares_nothing_are_comfyui_s(self) -> None:
        one = self.module(self.tensor(0, *SHAPE, filed=False))
        self.assertEqual([one._v], self.blocks((one,)))

    def test_allocations_lie_as_in_the_file(self) -> None:
        last, first = self.bias(), self.weight()
        self.share(last, first)
        self.assertEqual(PAGE, last._v[1] - first._v[1])
        self.assertEqual([True, True], [self.fault(last), self.fault(first)])

    def test_a_model_in_comfy_aimdo_s_vbar_is_left_alone(self) -> None:
        one = self.plain()
        before = one._v
        sharing.share(one, object())
        self.assertEqual(before, one._v)


if __name__ == "__main__":
    unittest.main()
