# SPDX-License-Identifier: Apache-2.0
"""The Python package against the real service."""

from __future__ import annotations

import gc
import json
import os
import struct
import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))

import daemon  # noqa: E402
import penstock  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


def write_model(path: Path) -> dict[str, bytes]:
    """Tensors of several dtypes, an empty one and a scalar; returns their bytes."""
    parts = {"a.weight": ("F32", [256, 64], struct.pack("<16384f", *range(16384))), "b": ("BF16", [8], b"\x80\x3f" * 8),
             "c.scalar": ("F32", [], struct.pack("<f", 2.5)), "d.empty": ("F32", [0], b""),
             "e.big": ("U8", [20 << 20], bytes(range(256)) * (80 << 10))}
    header: dict[str, object] = {"__metadata__": {"made": "here"}}
    data = b""
    for name, (dtype, shape, content) in parts.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return {name: content for name, (_, _, content) in parts.items()}


class WithService(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(daemon.Daemon(capacity="64MiB"))
        self.path = self.daemon.folder / "m.safetensors"
        self.content = write_model(self.path)
        self.service = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))

    def open(self) -> penstock.Checkpoint:
        return self.service.open(self.path)


class Reports(WithService):
    def client(self) -> dict[str, object]:
        found: dict[str, object] = next(one for one in self.service.status()["clients"] if one["pid"] == os.getpid())
        return found

    def test_the_last_report_is_shown_whole_and_nothing_where_there_is_none(self) -> None:
        self.assertNotIn("kinds", self.client())
        self.service.report([penstock.Holding("weights", "device", 5), penstock.Holding("work", "device", 6, "host"),
                             penstock.Holding("state", "disk", 0)])
        self.service.report([penstock.Holding("carry", "locked_host", 7), penstock.Holding("weights", "device", 8, "host")])
        kinds = self.client()["kinds"]
        assert isinstance(kinds, dict)
        kinds.pop("other", None)  # The process's remainder: not there before its first reading.
        self.assertEqual({"weights": {"devices": {"host": 8}}, "carry": {"locked_host_bytes": 7}}, kinds)

    def test_a_report_of_something_unknown_is_refused_and_the_last_one_stays(self) -> None:
        self.service.report([penstock.Holding("work", "disk", 1)])
        for one in (penstock.Holding("works", "disk", 1), penstock.Holding("work", "tape", 1),
                    penstock.Holding("work", "disk", -1), penstock.Holding("work", "disk", 1, "host")):
            self.assertRaises(penstock.errors.InvalidArgumentError, self.service.report, [one])
        self.assertRaises(penstock.NotFoundError, self.service.report, [penstock.Holding("work", "device", 1, "cuda-1")])
        self.assertEqual(1, self.client()["kinds"]["work"]["disk_bytes"])  # type: ignore[index]

    def test_what_the_kernel_knows_of_the_process_is_beside_it(self) -> None:
        self.service.report([penstock.Holding("weights", "anonymous", 1 << 20)])
        self.assertTrue(daemon.wait_until(lambda: "process" in self.client()))
        client = self.client()
        anonymous = client["process"]["anonymous_bytes"]  # type: ignore[index]
        self.assertGreater(anonymous, 4 << 20)
        swapped = client["process"]["swapped_bytes"]  # type: ignore[index]
        self.assertEqual(anonymous + swapped - (1 << 20), client["kinds"]["other"]["anonymous_bytes"])  # type: ignore[index]


class Reading(WithService):
    def test_tensors_tell_name_dtype_shape_and_size(self) -> None:
        tensor = self.open().tensors["a.weight"]
        self.assertEqual(("a.weight", "F32", (256, 64), 65536), (tensor.name, tensor.dtype, tensor.shape, tensor.nbytes))

    def test_every_tensor_has_the_bytes_of_the_file(self) -> None:
        checkpoint = self.open()
        for name, content in self.content.items():
            with checkpoint.pin(name) as tensor:
                self.assertEqual(content, bytes(tensor.memory))
            self.assertEqual(content, checkpoint.read(name))
        self.assertEqual({"made": "here"}, dict(checkpoint.metadata))

    def test_all_of_them_can_be_pinned_at_once(self) -> None:
        with self.open().pin() as tensors:
            self.assertEqual(set(self.content), set(tensors))
            self.assertTrue(all(bytes(tensors[name].memory) == self.content[name] for name in tensors))

    def test_views_are_read_only(self) -> None:
        with self.open().pin("a.weight") as tensor:
            with self.assertRaises(TypeError):
                tensor.memory[0] = 1

    def test_a_file_object_is_as_good_as_a_path(self) -> None:
        with open(self.path, "rb") as file:
            self.assertEqual(self.open().id, self.service.open(file).id)

    def test_what_does_not_fit_can_still_be_read(self) -> None:
        checkpoint = self.open()
        checkpoint.set_cutoff(0)
        with self.assertRaises(penstock.OffloadedError):
            checkpoint.pin("e.big")
        self.assertEqual(self.content["e.big"], checkpoint.read("e.big"))


class Lifetime(WithService):
    def pinned_bytes(self) -> int:
        own = self.daemon.ask("status")["clients"]
        return max(int(client["pinned_bytes"]) for client in own)

    def test_access_after_unpin_raises(self) -> None:
        with self.open().pin("b") as tensor:
            pass
        with self.assertRaises(penstock.UnpinnedError):
            _ = tensor.memory

    def test_a_view_that_outlives_its_with_keeps_the_page_and_warns(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with self.open().pin("a.weight") as tensor:
                view = tensor.memory
        self.assertEqual([ResourceWarning], [one.category for one in caught])
        self.assertEqual(self.content["a.weight"], bytes(view))
        self.assertGreater(self.pinned_bytes(), 0)
        del view
        gc.collect()
        self.assertTrue(daemon.wait_until(lambda: self.pinned_bytes() == 0))

    def test_a_view_outlives_even_the_connection(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with penstock.connect(socket=str(self.daemon.socket)) as service:
                with service.open(self.path).pin("e.big") as tensor:
                    view = tensor.memory
        self.assertEqual(self.content["e.big"], bytes(view))
        del view
        gc.collect()
        # Only this test's own connection and the asking command are left.
        self.assertTrue(daemon.wait_until(lambda: len(self.daemon.ask("status")["clients"]) == 2))

    def test_a_forked_child_gets_a_clear_error(self) -> None:
        checkpoint = self.open()
        with checkpoint.pin("b") as tensor:
            child = os.fork()
            if child == 0:
                code = 0
                for attempt in (lambda: tensor.memory, lambda: checkpoint.pin("b"), self.service.status):
                    try:
                        attempt()
                        code = 1
                    except penstock.ForkedError:
                        pass
                    except BaseException:  # noqa: BLE001
                        code = 2
                os._exit(code)
            self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            self.assertEqual(self.content["b"], bytes(tensor.memory))


class Memory(WithService):
    def test_residency_follows_prefetch_free_and_evict(self) -> None:
        checkpoint = self.open()
        self.assertEqual(0, checkpoint.resident_bytes)
        checkpoint.prefetch(wait=True)
        size = self.path.stat().st_size
        self.assertEqual(size, checkpoint.resident_bytes)
        with checkpoint.pin("a.weight"):
            self.assertGreater(self.service.evict(checkpoint)["kept_pinned_bytes"], 0)
        checkpoint.prioritize()
        with self.assertRaises(penstock.NotFoundError):
            self.service.free(1 << 30, 5, "cuda-nowhere")
        self.assertGreater(self.service.free(1 << 30, 5, self.service.devices[0].id), 0)
        self.assertEqual(0, checkpoint.resident_bytes)

    def test_admission_books_and_refuses_with_numbers(self) -> None:
        with self.service.admit(work=16 << 20, timeout=5) as grant:
            self.assertEqual(16 << 20, grant.work_bytes)
            self.assertEqual(16 << 20, self.daemon.device()["booked_bytes"])
        self.assertEqual(0, self.daemon.device()["booked_bytes"])
        with self.assertRaises(penstock.PenstockError) as refused:
            with self.service.admit(work=1 << 40, timeout=0):
                pass
        self.assertEqual("never_fits", refused.exception.kind)

    def test_failures_have_classes_of_their_own(self) -> None:
        with self.assertRaises(penstock.NotFoundError):
            self.service.open(self.daemon.folder / "none.safetensors")
        with self.assertRaises(penstock.UnreachableError):
            penstock.connect(socket=str(self.daemon.folder / "none.sock"))
        (self.daemon.folder / "bad.safetensors").write_bytes(b"<!DOCTYPE html>" + bytes(500))
        with self.assertRaises(penstock.PenstockError) as refused:
            self.service.open(self.daemon.folder / "bad.safetensors")
        self.assertEqual("html", refused.exception.kind)


class ServiceGone(WithService):
    def test_what_is_mapped_stays_readable_and_new_faults_come_back_with_the_service(self) -> None:
        checkpoint = self.open()
        with checkpoint.pin("a.weight") as tensor:
            self.daemon.process.kill()
            self.daemon.process.wait()
            self.assertEqual(self.content["a.weight"], bytes(tensor.memory))
            with self.assertRaises(penstock.PenstockError) as gone:
                checkpoint.pin("e.big")
            self.assertIn(gone.exception.kind, ("disconnected", "unreachable"))
            self.assertEqual(self.content["a.weight"], bytes(tensor.memory))
            self.daemon.log_path.write_text("")
            self.daemon.start()
            with checkpoint.pin("e.big") as big:
                self.assertEqual(self.content["e.big"], bytes(big.memory))


@unittest.skipIf(numpy is None, "requires numpy")
class Numpy(WithService):
    def setUp(self) -> None:
        super().setUp()
        os.environ["PENSTOCK_SOCKET"] = str(self.daemon.socket)
        self.addCleanup(os.environ.pop, "PENSTOCK_SOCKET")

    def test_arrays_are_read_only_and_need_no_copy(self) -> None:
        with self.open().pin("a.weight") as tensor:
            array = tensor.numpy()
            self.assertEqual((256, 64), array.shape)
            self.assertEqual(16383.0, array[-1, -1])
            self.assertFalse(array.flags.writeable)
            self.assertEqual(numpy.asarray(tensor).tobytes(), array.tobytes())
            del array

    def test_files_load_whole_and_by_name(self) -> None:
        arrays = penstock.numpy.load_file(self.path)
        self.assertEqual(set(self.content), set(arrays))
        self.assertEqual(self.content["e.big"], arrays["e.big"].tobytes())
        self.assertEqual("bfloat16", str(arrays["b"].dtype))
        with penstock.safe_open(self.path, "numpy") as file:
            self.assertEqual([2.5], file.get_tensor("c.scalar").reshape(-1).tolist())
            self.assertEqual([256, 64], file.get_slice("a.weight").get_shape())
            self.assertEqual({"made": "here"}, file.metadata())


if __name__ == "__main__":
    unittest.main()
