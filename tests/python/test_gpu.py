# SPDX-License-Identifier: Apache-2.0
"""The Python package on GPUs: fake ones, whose memory the processor can look at, too."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import unittest
import warnings

import penstock
import test_package
from test_package import daemon

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

LIBRARIES = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.7"}
WITHOUT_A_DRIVER = """
import sys, penstock
with penstock.connect() as service, service.open(sys.argv[1]) as checkpoint:
    assert checkpoint.on_gpu and checkpoint.tensors["b"].shape == (8,)
    assert checkpoint.read("b") == b"\\x80\\x3f" * 8
    try:
        checkpoint.pin("b")
    except penstock.UnsupportedError as error:
        assert "has not loaded the driver" in str(error), error
    else:
        sys.exit("pinned without a driver")
"""


class GpuDaemon(daemon.Daemon):
    def __init__(self, vendor: str) -> None:
        self.vendor = vendor
        super().__init__(environment={"LD_LIBRARY_PATH": str(daemon.BUILD / "fakes" / vendor)})

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\n[metrics]\nlisten = ""\n'
                f'[device.{self.vendor}]\npage_bytes = "2MiB"\ncapacity = "64MiB"\n')


class OnCuda(unittest.TestCase):
    vendor = "cuda"

    def setUp(self) -> None:
        library = daemon.BUILD / "fakes" / self.vendor / LIBRARIES[self.vendor]
        if not library.exists():
            self.skipTest(f"requires {library}")
        ctypes.CDLL(str(library))  # From now on it is found by its name.
        self.daemon = self.enterContext(GpuDaemon(self.vendor))
        self.path = self.daemon.folder / "m.safetensors"
        self.content = test_package.write_model(self.path)
        self.service = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        self.service.use_device()

    def pinned_bytes(self) -> int:
        gc.collect()
        return self.service.open(self.path).pinned_bytes

    def test_every_tensor_has_the_bytes_of_the_file(self) -> None:
        self.assertEqual([self.vendor], [one.kind for one in self.service.devices])
        checkpoint = self.service.open(self.path)
        self.assertTrue(checkpoint.on_gpu)
        with checkpoint.pin() as tensors:
            for name, content in self.content.items():
                self.assertEqual(content, tensors[name].tobytes())
        for name, content in self.content.items():
            self.assertEqual(content, checkpoint.read(name))

    def test_what_the_processor_would_read_is_refused(self) -> None:
        with self.service.open(self.path).pin("a.weight") as tensor:
            for look in (lambda: tensor.memory, tensor.numpy):
                with self.assertRaisesRegex(penstock.UnsupportedError, "lies on a GPU"):
                    look()
            self.assertFalse(hasattr(tensor, "__array_interface__"))
            with self.assertRaises(BufferError):
                tensor.__dlpack__()
            with self.assertRaises(BufferError):
                tensor.__dlpack_device__()

    def test_array_libraries_get_the_memory_itself(self) -> None:
        checkpoint = self.service.open(self.path)
        with checkpoint.pin() as tensors:
            for name, typestr, shape in (("a.weight", "<f4", (256, 64)), ("b", "|u1", (8, 2)), ("c.scalar", "<f4", ()),
                                         ("d.empty", "<f4", (0,)), ("e.big", "|u1", (20 << 20,))):
                for holder in (tensors[name], tensors[name].array()):
                    told = holder.__cuda_array_interface__
                    self.assertEqual((3, typestr, shape, None),
                                     (told["version"], told["typestr"], told["shape"], told["strides"]))
                    address, read_only = told["data"]
                    self.assertFalse(read_only)  # torch refuses True.
                    self.assertEqual(self.content[name], ctypes.string_at(address, len(self.content[name])))
            del holder

    def test_pages_stay_pinned_until_the_last_array_is_gone(self) -> None:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with self.service.open(self.path).pin("a.weight") as tensor:
                array = tensor.array()
            self.assertEqual([ResourceWarning], [one.category for one in seen])
        self.assertEqual(2 << 20, self.pinned_bytes())
        del array, tensor
        self.assertEqual(0, self.pinned_bytes())

    def test_a_tensor_that_was_lent_itself_keeps_its_pages(self) -> None:
        with self.service.open(self.path).pin("a.weight") as tensor:
            self.assertIsNotNone(tensor.__cuda_array_interface__)
        self.assertEqual(2 << 20, self.pinned_bytes(), "the library that took it can't tell when it lets go")
        del tensor
        self.assertEqual(0, self.pinned_bytes())

    def test_the_pin_ends_behind_a_stream(self) -> None:
        tensor = self.service.open(self.path).pin("a.weight")
        tensor.unpin(stream=None)
        self.assertEqual(0, self.pinned_bytes())
        with self.assertRaises(penstock.UnpinnedError):
            tensor.array()

    def test_a_program_without_the_driver_reads_from_the_file(self) -> None:
        done = subprocess.run([sys.executable, "-c", WITHOUT_A_DRIVER, self.path], capture_output=True, text=True,
                              check=False, env={**self.daemon.environment, "LD_LIBRARY_PATH": "",
                                                "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(0, done.returncode, done.stderr)

    def test_safetensors_functions_give_copies(self) -> None:
        if numpy is None:
            self.skipTest("requires numpy")
        os.environ["PENSTOCK_SOCKET"] = str(self.daemon.socket)
        loaded = penstock.numpy.load_file(self.path)
        self.assertEqual(self.content["a.weight"], loaded["a.weight"].tobytes())
        self.assertEqual(set(self.content), set(loaded))


class OnHip(OnCuda):
    vendor = "hip"


class OnHost(test_package.WithService):
    def test_there_is_nothing_of_a_gpu(self) -> None:
        self.service.use_device()
        with self.open().pin("a.weight") as tensor:
            self.assertFalse(hasattr(tensor, "__cuda_array_interface__"))
            with self.assertRaises(penstock.UnsupportedError):
                tensor.array()
            self.assertEqual(self.content["a.weight"], tensor.tobytes())


if __name__ == "__main__":
    unittest.main()
