# SPDX-License-Identifier: Apache-2.0
"""The Python package on GPUs: fake ones, whose memory the processor can look at, too."""

from __future__ import annotations

import ctypes
import gc
import hashlib
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


# A process whose GPU can't share memory: vendor, library, checkpoint. `used` tells the bytes of the device.
COPIES = """
import ctypes, gc, hashlib, sys, time, types
import penstock
vendor, library, path = sys.argv[1:]
driver = ctypes.CDLL(library)
driver.penstock_fake_used_bytes.restype = ctypes.c_uint64

def used():
    gc.collect()
    return driver.penstock_fake_used_bytes(0)

def comes_to(expected):
    # Its memory goes once the work that the last unpin told of has ended, at the program's next call.
    for _ in range(20000):
        service.run_revokes()
        if used() == expected:
            return True
        time.sleep(0.001)
    return False

def content(tensor):
    held = tensor.array()
    return ctypes.string_at(held.__cuda_array_interface__["data"][0], tensor.nbytes)

with penstock.connect(device=vendor) as service:
    assert [one.kind for one in service.devices] == ["host"]
    empty = used()
    before = service.open(path)
    assert before.on_gpu and before.read("b") == b"\\x80\\x3f" * 8  # On CUDA from the file: there is no context yet.
    service.use_device()
    checkpoint = service.open(path)
    with checkpoint.pin("b") as tensor:
        assert content(tensor) == b"\\x80\\x3f" * 8 == tensor.tobytes()
    assert 0 < checkpoint.resident_bytes < checkpoint.nbytes, (checkpoint.resident_bytes, checkpoint.nbytes)  # Only what was asked for is copied.
    with checkpoint.pin() as tensors:
        digest = hashlib.sha256()
        for name in sorted(tensors):
            digest.update(tensors[name].tobytes())
    assert checkpoint.resident_bytes >= checkpoint.nbytes, checkpoint.resident_bytes
    assert checkpoint.pinned_bytes == 0, checkpoint.pinned_bytes
    whole = used()
    assert whole - empty >= checkpoint.nbytes
    again = service.open(path)  # The same copy.
    with again.pin("b") as one, checkpoint.pin("b") as other:
        assert content(one) == content(other) and used() == whole
        data = [each.array().__cuda_array_interface__["data"] for each in (one, other)]
        assert data[0] == data[1]
    for refused in (lambda: service.private_table(1 << 20), lambda: service.admit(work=1)):
        try:
            refused()
        except (penstock.UnsupportedError, penstock.NotFoundError):
            pass
        else:
            sys.exit("not refused")
    assert service.evict(checkpoint.id)["evicted_bytes"] >= 0  # Host memory may go.
    with checkpoint.pin("b") as tensor:
        kept = tensor.array()
        address = kept.__cuda_array_interface__["data"][0]
        tensor.unpin()
    checkpoint.close(), again.close(), before.close()
    del checkpoint, again, before, tensor, tensors, one, other
    assert used() == whole and ctypes.string_at(address, 16) == b"\\x80\\x3f" * 8  # A view keeps it.
    del kept
    assert comes_to(empty), (used(), empty)

# As torch would be used: it brings driver and context, and shows the memory.
class Shown:
    def __init__(self, holder):
        self.holder, self.address = holder, holder.__cuda_array_interface__["data"][0]
        self.nbytes = holder.__cuda_array_interface__["shape"][0]
    def data_ptr(self): return self.address
    def view(self, dtype): return self
    def reshape(self, shape): return self
torch = types.ModuleType("torch")
torch.version = types.SimpleNamespace(hip="6.1" if vendor == "hip" else None)
torch.uint8 = torch.float32 = torch.bfloat16 = "dtype"
torch.empty = lambda shape, **_: None
torch.as_tensor = lambda holder, device: Shown(holder)
sys.modules["torch"] = torch
import penstock.torch
loaded = penstock.torch.load_file(path, device="cuda")
assert ctypes.string_at(loaded["b"].address, 16) == b"\\x80\\x3f" * 8
assert used() > empty
del loaded
assert used() == empty
print(digest.hexdigest())
"""


class GpuDaemon(daemon.Daemon):
    def __init__(self, vendor: str, **more: str) -> None:
        self.vendor = vendor
        super().__init__(environment={"LD_LIBRARY_PATH": str(daemon.BUILD / "fakes" / vendor), **more})

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\n[metrics]\nlisten = ""\n'
                f'[device.{self.vendor}]\npage_bytes = "2MiB"\ncapacity = "64MiB"\n'
                '[device.host]\npage_bytes = "2MiB"\n')


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

    def faults(self, plan: str) -> None:
        driver = ctypes.CDLL(LIBRARIES[self.vendor])
        driver.penstock_fake_set_faults(plan.encode())
        self.addCleanup(driver.penstock_fake_set_faults, b"")

    def call(self, name: str) -> str:
        return ("cu" if self.vendor == "cuda" else "hip") + name

    def test_a_pin_whose_end_is_refused_ends_with_a_later_call(self) -> None:
        checkpoint = self.service.open(self.path)
        tensor = checkpoint.pin("a.weight")
        self.faults(self.call("EventRecord") + ":999")
        tensor.unpin()
        self.assertEqual(2 << 20, checkpoint.pinned_bytes, "the work behind it can't be told of")
        self.faults("")
        self.assertEqual(0, checkpoint.pinned_bytes)

    def test_a_stream_that_is_gone_keeps_no_pin(self) -> None:
        driver, stream = ctypes.CDLL(LIBRARIES[self.vendor]), ctypes.c_void_p()
        create = driver.cuStreamCreate if self.vendor == "cuda" else driver.hipStreamCreateWithFlags
        self.assertEqual(0, create(ctypes.byref(stream), 1))
        checkpoint = self.service.open(self.path)
        tensor = checkpoint.pin("a.weight")
        asked = self.call("StreamIsCapturing")
        self.faults(f"{asked}:400@1;{asked}:400@2")
        tensor.unpin(stream=stream.value)
        self.assertEqual(0, checkpoint.pinned_bytes)

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


class WithoutSharing(unittest.TestCase):
    """GPUs whose driver works and has no virtual memory management for us: whole tables are copied."""

    def test_a_table_is_copied_whole_and_freed_with_its_last_view(self) -> None:
        for vendor, library, more in (("cuda", "libcuda.so.1", {"PENSTOCK_FAKE_NO_VMM": "1"}),
                                      ("hip", "libamdhip64.so.6", {"PENSTOCK_FAKE_HIP_VERSION": "6.1"}),
                                      ("hip", "libamdhip64.so.7", {"PENSTOCK_FAKE_HIP_VERSION": "7.2"}),
                                      # Drivers that promise it, and refuse when they are asked:
                                      ("cuda", "libcuda.so.1", {"PENSTOCK_FAKE_FAULTS": "cuMemExportToShareableHandle:800"}),
                                      ("cuda", "libcuda.so.1", {"PENSTOCK_FAKE_FAULTS": "cuMemMap:801"}),
                                      ("hip", "libamdhip64.so.7", {"PENSTOCK_FAKE_QUIRKS": "+keep_until_free"})):
            with self.subTest(vendor, more=more):
                found = daemon.BUILD / "fakes" / vendor / library
                if not found.exists():
                    self.skipTest(f"requires {found}")
                running = self.enterContext(GpuDaemon(vendor, **more))
                path = running.folder / "m.safetensors"
                model = test_package.write_model(path)
                environment = {**running.environment, "PYTHONPATH": os.pathsep.join(sys.path),
                               "PENSTOCK_SOCKET": str(running.socket)}
                done = subprocess.run([sys.executable, "-c", COPIES, vendor, found, path], capture_output=True, text=True,
                                      check=False, env=environment)
                self.assertEqual(0, done.returncode, done.stderr)
                expected = hashlib.sha256(b"".join(model[name] for name in sorted(model))).hexdigest()
                self.assertEqual(expected, done.stdout.strip())
                said = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
                self.assertEqual(1, len(said), done.stderr)
                self.assertRegex(said[0], f"memory of {vendor}-[0-9a-f]{{8}} can't be shared .*whole copies")


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
