# SPDX-License-Identifier: Apache-2.0
"""Views of pinned tensors: what they share, what they keep, and what is refused."""

from __future__ import annotations

import gc
import json
import struct
import unittest
import warnings
from pathlib import Path
from typing import Any

import penstock
import test_package
from test_package import daemon

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]
try:
    import torch
except ImportError:
    torch = None


def write_dtypes(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """One tensor of each dtype, named after it."""
    bits = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64, "F16": 16,
            "F32": 32, "F64": 64, "C64": 64, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4}
    tensors: dict[str, tuple[str, list[int], bytes]] = {}
    header, data = {}, b""
    for dtype, width in sorted(bits.items(), key=lambda one: -one[1]):
        content = bytes(index % 2 for index in range(4 * 6 * width // 8))
        tensors[dtype] = (dtype, [4, 6], content)
        header[dtype] = {"dtype": dtype, "shape": [4, 6], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return tensors


class Views(test_package.WithService):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.daemon.folder / "dtypes.safetensors"
        self.tensors = write_dtypes(self.path)
        self.checkpoint = self.open()

    def pinned_bytes(self) -> int:
        return self.checkpoint.pinned_bytes

    def outlives(self, view: Any) -> None:
        """The pin lasts as long as the view, and no longer."""
        self.assertGreater(self.pinned_bytes(), 0)
        view.clear()
        gc.collect()
        self.assertEqual(0, self.pinned_bytes())

    def quietly_unpinned(self, dtype: str, look: Any) -> list[Any]:
        """What `look` makes of a pinned tensor, in a list, after its `with`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            with self.checkpoint.pin(dtype) as tensor:
                return [look(tensor)]

    def test_part_of_a_view_keeps_the_whole_pinned(self) -> None:
        self.outlives(self.quietly_unpinned("U8", lambda tensor: tensor.memory[3:5]))

    def test_a_temporary_view_needs_no_warning(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.checkpoint.pin("U8") as tensor:
                self.assertEqual(self.tensors["U8"][2], bytes(tensor.memory))
            with self.checkpoint.pin() as tensors:
                self.assertEqual(len(self.tensors), len(tensors))

    def test_a_pinned_tensor_that_is_dropped_is_unpinned(self) -> None:
        tensor = self.checkpoint.pin("U8")
        self.assertGreater(self.pinned_bytes(), 0)
        del tensor
        gc.collect()
        self.assertEqual(0, self.pinned_bytes())

    def test_a_service_that_is_dropped_is_disconnected(self) -> None:
        self.checkpoint.close()
        service: penstock.Service | None = penstock.connect(socket=str(self.daemon.socket))
        count = len(self.service.status()["clients"])
        service = None  # noqa: F841
        gc.collect()
        self.assertTrue(daemon.wait_until(lambda: len(self.service.status()["clients"]) == count - 1))

    def test_dlpack_needs_no_package(self) -> None:
        with self.checkpoint.pin("BF16") as tensor:
            self.assertEqual((1, 0), tensor.__dlpack_device__())
            capsule = tensor.__dlpack__()
            self.assertIn("dltensor", repr(capsule))
            with self.assertRaises(BufferError):
                tensor.__dlpack__(dl_device=(2, 0))
            del capsule
        with self.checkpoint.pin("F4") as tensor, self.assertRaises(BufferError):
            tensor.__dlpack__()
        gc.collect()
        self.assertEqual(0, self.pinned_bytes())

    @unittest.skipIf(numpy is None, "requires numpy")
    def test_numpy_shows_every_dtype(self) -> None:
        for dtype, (_, shape, content) in self.tensors.items():
            with self.subTest(dtype), self.checkpoint.pin(dtype) as tensor:
                array = tensor.numpy()
                self.assertEqual(content, array.tobytes())
                self.assertFalse(array.flags.writeable)
                if dtype == "F4":
                    self.assertEqual({"dtype": "F4"}, dict(array.dtype.metadata))
                else:
                    self.assertEqual(shape, list(array.shape))
                del array

    @unittest.skipIf(numpy is None, "requires numpy")
    def test_numpy_takes_tensors_as_they_are_without_a_copy(self) -> None:
        for dtype in ("I32", "BF16"):
            with self.subTest(dtype):
                kept = self.quietly_unpinned(dtype, lambda tensor: (numpy.asarray(tensor), tensor.memory))
                array, memory = kept[0]
                self.assertEqual(numpy.frombuffer(memory, dtype="u1").ctypes.data, array.ctypes.data)
                self.assertFalse(array.flags.writeable)
                del array, memory
                self.outlives(kept)

    @unittest.skipIf(numpy is None, "requires numpy")
    def test_arrays_from_dlpack_keep_the_pin(self) -> None:
        kept = self.quietly_unpinned("F32", numpy.from_dlpack)
        self.assertEqual(self.tensors["F32"][2], kept[0].tobytes())
        self.outlives(kept)

    @unittest.skipIf(torch is None, "requires torch")
    def test_torch_shows_every_dtype_that_it_has(self) -> None:
        for dtype, (_, shape, content) in self.tensors.items():
            with self.subTest(dtype), self.checkpoint.pin(dtype) as tensor:
                view = tensor.torch()
                self.assertEqual(content, view.contiguous().view(torch.uint8).numpy().tobytes())
                if dtype != "F4":
                    self.assertEqual(shape, list(view.shape))
                del view

    @unittest.skipIf(torch is None, "requires torch")
    def test_what_torch_writes_stays_here_and_is_gone_with_the_last_view(self) -> None:
        with self.checkpoint.pin("I64") as tensor:
            view = tensor.torch()
            view.fill_(7)
            self.assertEqual([7] * 6, tensor.torch()[0].tolist())
            other = penstock.connect(socket=str(self.daemon.socket))
            self.assertEqual(self.tensors["I64"][2], other.open(self.path).read("I64"))
            other.close()
            del view
            gc.collect()
            self.assertEqual(self.tensors["I64"][2], bytes(tensor.memory))

    @unittest.skipIf(torch is None, "requires torch")
    def test_torch_tensors_keep_the_pin(self) -> None:
        self.outlives(self.quietly_unpinned("BF16", lambda tensor: tensor.torch()[1:]))
        self.outlives(self.quietly_unpinned("F16", torch.from_dlpack))


class Rest(test_package.WithService):
    def test_each_kind_of_failure_has_a_class(self) -> None:
        from penstock import _library, errors

        statuses = [*range(1, 25), *range(64, 76), *range(96, 113)]
        kinds = {_library.library.pst_status_name(status).decode() for status in statuses}
        self.assertEqual(kinds, set(errors.KINDS))
        self.assertEqual(53, len(kinds))
        self.assertTrue(all(getattr(penstock, one.__name__) is one for one in errors.KINDS.values()))
        self.assertTrue(issubclass(penstock.DeadlineError, TimeoutError))

    def test_pressure_is_listened_to_until_the_end(self) -> None:
        self.service.on_pressure(lambda pressure: None)
        self.service.on_pressure(None)
        self.service.close()
        with self.assertRaises(penstock.InvalidArgumentError):
            self.service.status()

    def test_a_folder_is_not_built_yet(self) -> None:
        with self.assertRaises(penstock.NotBuiltError):
            self.service.open(self.daemon.folder)

    def test_evicting_takes_an_id_and_a_file(self) -> None:
        checkpoint = self.open()
        checkpoint.prefetch(wait=True)
        self.assertGreater(self.service.evict(checkpoint.id)["evicted_bytes"], 0)
        checkpoint.prefetch(wait=True)
        self.assertGreater(self.service.evict(self.path)["evicted_bytes"], 0)

    def test_a_grant_ends_once(self) -> None:
        grant = self.service.admit(work=1 << 20, timeout=5)
        grant.release()
        grant.release()
        del grant
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["booked_bytes"] == 0))


if __name__ == "__main__":
    unittest.main()
