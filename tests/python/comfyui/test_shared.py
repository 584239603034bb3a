# SPDX-License-Identifier: Apache-2.0
"""Weights that processes share, as ComfyUI drives them, and those that one of them changes."""

from __future__ import annotations

import ctypes
import os
import signal
import unittest.mock
from collections.abc import Callable
from typing import Any

from comfyui import workers
from comfyui.recorded_caller import Model, filed_model, model
from comfyui.seam import KIB, MIB, PAGE, WithSeam, daemon, peek, poke
from penstock_comfyui.link import link
from penstock_comfyui.surface import model_vbar


class WithFile(WithSeam):
    def model(self, count: int = 12, nbytes: int = 200 * KIB, **options: Any) -> Model:
        name = "spoiled" if options.get("spoil") else f"m{count}"
        one = filed_model(self.daemon.folder / f"{name}.safetensors", count, nbytes, **options)
        one.load()
        return one

    def resident(self) -> int:
        return int(self.daemon.device()["resident_bytes"])


class Shared(WithFile):
    def test_clean_weights_are_never_written(self) -> None:
        one = self.model()
        one.forward()
        one.forward()
        self.assertEqual((24, 0, 0), (one.counts.resident, one.counts.filled, one.counts.offloaded))
        self.assertEqual(0, one.counts.pinned)

    def test_an_evicted_clean_page_comes_back_with_its_bytes_and_the_same_signature(self) -> None:
        one = self.model()
        one.forward()
        held = one.vbar.loaded_size()
        self.assertEqual((held, 0), (one.vbar.free_memory(1e30), one.vbar.loaded_size()))
        one.vbar.prioritize()
        one.forward()
        self.assertEqual(24, one.counts.resident)

    def test_a_changed_module_alone_makes_its_pages_private(self) -> None:
        one = self.model()
        one.forward()
        shared = self.resident()
        one.modules[5].change(b"with a LoRA")
        one.load(dirty=True)
        one.forward()
        one.forward()
        self.assertEqual((1, 35), (one.counts.filled, one.counts.resident))
        pages = -(-(one.place(5) % PAGE + one.modules[5].nbytes) // PAGE)
        figures = one.vbar._pages._shared.table.residency()
        self.assertEqual((pages * PAGE, shared), (figures.private_bytes, figures.mapped_bytes))
        self.assertTrue(daemon.wait_until(lambda: self.resident() == shared), "what its pages were copied from has gone")
        one.vbar.free_memory(1e30)
        self.assertEqual(0, self.resident())

    def test_a_changed_module_whose_page_was_evicted_is_filled_again_and_its_neighbours_are_not(self) -> None:
        one = self.model()
        one.modules[5].change(b"with a LoRA")
        one.load(dirty=True)
        one.forward()
        one.vbar.free_memory(1e30)
        one.vbar.prioritize()
        one.forward()
        self.assertEqual((2, 22), (one.counts.filled, one.counts.resident))

    def test_a_module_that_is_no_longer_changed_has_the_file_s_bytes_again(self) -> None:
        one = self.model()
        one.modules[5].change(b"with a LoRA")
        one.load(dirty=True)
        one.forward()
        one.modules[5].change(b"")
        one.load(dirty=True)
        one.forward()  # Its page still has what it wrote: written again.
        self.assertEqual((2, 22), (one.counts.filled, one.counts.resident))
        one.vbar.free_memory(1e30)
        one.vbar.prioritize()
        one.forward()  # Now it is the file's.
        self.assertEqual((2, 34), (one.counts.filled, one.counts.resident))

    def test_weights_that_are_in_no_file_are_their_own(self) -> None:
        one = self.model(unfiled=(3, 11))
        one.forward()
        one.forward()
        self.assertEqual((2, 22), (one.counts.filled, one.counts.resident))

    def test_what_one_model_gives_is_none_of_another_s_of_the_same_file(self) -> None:
        """As a checkpoint has a text encoder beside its diffusion model."""
        one = self.model()
        one.forward()
        held, resident = one.vbar.loaded_size(), self.resident()
        other = model(5, 200 * KIB)
        other.file, other.start = one.file, one.start
        other.load()
        other.forward()
        self.assertEqual((5, 0), (other.counts.resident, other.counts.filled), "its weights are the file's")
        self.assertEqual(other.vbar.loaded_size(), other.vbar.free_memory(1e32))
        self.assertEqual(held, one.vbar.loaded_size())
        self.assertEqual(resident, self.resident())

    def test_a_shared_page_can_not_be_written(self) -> None:
        self.model()
        worker = self.worker(workers.write, str(self.daemon.socket), self.kind, self.daemon.folder / "m12.safetensors", 200 * KIB)
        worker.join(30)
        self.assertEqual(-signal.SIGSEGV if self.kind == "host" else 4, worker.exitcode)

    def test_whoever_finds_a_clean_signature_to_be_another_gets_pages_of_its_own(self) -> None:
        one = self.model()
        first = one.modules[0].allocation
        signature = model_vbar.vbar_fault(first)
        self.assertFalse(model_vbar.vbar_signature_compare(signature, (ctypes.c_uint64 * len(signature))()))
        poke(first[1], b"mine")
        model_vbar.vbar_unpin(first)
        again = model_vbar.vbar_fault(first)
        self.assertTrue(model_vbar.vbar_signature_compare(again, signature))
        self.assertEqual(b"mine", peek(first[1], 4))

    def test_who_knows_no_signature_is_about_to_write_too(self) -> None:
        one = self.model()
        first = one.modules[0].allocation
        signature = model_vbar.vbar_fault(first)
        self.assertFalse(model_vbar.vbar_signature_compare(signature, None))
        poke(first[1], b"mine")
        model_vbar.vbar_unpin(first)
        self.assertTrue(model_vbar.vbar_signature_compare(model_vbar.vbar_fault(first), signature))
        self.assertEqual(b"mine", peek(first[1], 4))
        model_vbar.vbar_unpin(first)

    def test_signatures_are_as_long_as_their_ranges_are_large(self) -> None:
        one = self.model()
        addresses = [module.allocation[1] for module in one.modules]
        lengths = set()
        for address in addresses:  # They begin anywhere in their pages.
            part = (one.vbar, address, 150 * KIB)
            lengths.add(len(model_vbar.vbar_fault(part)))
            model_vbar.vbar_unpin(part)
        self.assertEqual({150 * KIB // PAGE + 2}, lengths)

    def test_a_range_of_several_modules_keeps_its_signature_until_one_is_written(self) -> None:
        one = self.model()
        block = (one.vbar, one.modules[2].allocation[1], one.modules[5].allocation[1] - one.modules[2].allocation[1] + 9)
        first = model_vbar.vbar_fault(block)
        model_vbar.vbar_unpin(block)
        one.vbar.free_memory(1e30)
        one.vbar.prioritize()
        again = model_vbar.vbar_fault(block)
        model_vbar.vbar_unpin(block)
        self.assertTrue(model_vbar.vbar_signature_compare(first, again))
        one.modules[3].change(b"LoRA")
        one.load(dirty=True)
        one.forward()
        self.assertFalse(model_vbar.vbar_signature_compare(first, model_vbar.vbar_fault(block)))
        model_vbar.vbar_unpin(block)

    def test_a_file_that_the_service_refuses_leaves_everything_as_it_was(self) -> None:
        one = self.model(spoil=True)
        one.forward()
        one.forward()
        self.assertEqual((12, 12), (one.counts.filled, one.counts.resident))

    def test_a_service_that_comes_back_has_the_same_bytes(self) -> None:
        one = self.model()
        one.modules[5].change(b"LoRA")
        one.load(dirty=True)
        one.forward()
        self.daemon.process.kill()
        self.daemon.process.wait()
        one.forward()
        self.restart()
        self.assertTrue(daemon.wait_until(lambda: link.service() is not None))
        one.vbar.free_memory(1e30)
        for _ in range(3):
            one.load()
            one.forward()


class Once(WithFile):
    """What is resident for one model. Starts with an empty device."""

    def setUp(self) -> None:
        super().setUp()
        self.daemon.ask("evict", "--all")
        self.assertEqual(0, self.resident())

    def test_weights_that_are_in_no_file_are_there_once(self) -> None:
        one = self.model(unfiled=tuple(range(11)))
        self.assertEqual([False] * 11 + [True], [one.vbar._pages.is_shared(module.allocation[1]) for module in one.modules])
        one.forward()
        one.forward()
        self.assertEqual((11, 13), (one.counts.filled, one.counts.resident))
        # A page at the border of each table is two modules'.
        self.assertLessEqual(self.resident(), one.nbytes + 3 * PAGE)

    def test_a_lora_on_all_of_a_model_costs_one_copy(self) -> None:
        one = self.model()
        for module in one.modules:
            module.change(b"with a LoRA")
        one.load(dirty=True)
        one.forward()
        private = one.vbar._pages._shared.table.residency().private_bytes
        self.assertTrue(daemon.wait_until(lambda: self.resident() == private), "before the prompt ends")
        one.forward()
        self.assertEqual((12, 12), (one.counts.filled, one.counts.resident))
        self.assertEqual(private, self.resident())


class SmallBudget(WithFile):
    capacity = "1MiB"

    def test_where_a_copy_finds_no_room_nothing_fails_and_the_page_is_not_to_be_written(self) -> None:
        one = self.model()
        pinned = []
        for module in one.modules[:8]:
            if model_vbar.vbar_fault(module.allocation) is not None:
                pinned.append(module.allocation)
        self.assertLess(len(pinned), 8, "all of the device is pinned")
        first, shown = one.modules[0], one.modules[0].signature
        signature = model_vbar.vbar_fault(first.allocation)
        with unittest.mock.patch("penstock_comfyui.tables.FAULT_SECONDS", 0.1):
            self.assertFalse(model_vbar.vbar_signature_compare(signature, (ctypes.c_uint64 * len(signature))()))
        self.assertTrue(one.vbar._pages.is_refused(first.allocation[1]))
        self.assertFalse(model_vbar.vbar_signature_compare(signature, shown), "what is written elsewhere is not the page's")
        model_vbar.vbar_unpin(first.allocation)
        self.assertFalse(one.vbar._pages.is_refused(first.allocation[1]))
        again = model_vbar.vbar_fault(first.allocation)
        self.assertTrue(model_vbar.vbar_signature_compare(again, shown))
        for allocation in (*pinned, first.allocation):
            model_vbar.vbar_unpin(allocation)
        one.forward()

    def test_every_byte_is_right_with_changed_modules_and_without_room_for_copies(self) -> None:
        one = self.model(16)
        for number in (2, 3, 9):
            one.modules[number].change(b"LoRA")
        for _ in range(4):
            one.load(dirty=True)
            one.forward()
        self.assertLessEqual(self.resident(), MIB)
        self.assertGreater(one.counts.resident, 0)


class TwoProcesses(WithFile):
    def start(self, numbers: tuple[int, ...] = (), does: Callable[..., None] = workers.share) -> tuple[Any, Any]:
        context = self.processes()
        ready, go = context.Event(), context.Event()
        worker = self.worker(does, str(self.daemon.socket), self.kind, self.daemon.folder / "m12.safetensors", 200 * KIB, numbers,
                             ready, go)
        self.assertTrue(ready.wait(30))
        return worker, go

    def test_they_have_one_copy_and_what_one_changes_is_its_own(self) -> None:
        one = self.model()
        one.forward()
        alone = self.resident()
        self.assertEqual(alone, one.vbar.loaded_size())
        same, go = self.start()
        self.assertEqual(alone, self.resident())
        self.assertTrue(daemon.wait_until(lambda: one.vbar.loaded_size() == 0), "others have these pages, too")
        changed, go_too = self.start((5,))
        self.assertEqual(alone + len(one.pages(5)) * PAGE, self.resident())
        one.forward()
        for worker, event in ((same, go), (changed, go_too)):
            event.set()
            worker.join(30)
            self.assertEqual(0, worker.exitcode)
        one.forward()
        self.assertTrue(daemon.wait_until(lambda: one.vbar.loaded_size() == alone))
        self.assertEqual(36, one.counts.resident)

    def test_they_share_in_whatever_order_they_allocated(self) -> None:
        one = self.model()
        one.forward()
        alone = self.resident()
        other, go = self.start((5,), workers.share_backwards)
        self.assertEqual(alone + len(one.pages(5)) * PAGE, self.resident())
        one.forward()
        go.set()
        other.join(30)
        self.assertEqual((0, 24), (other.exitcode, one.counts.resident))

    def test_loaded_size_free_memory_and_vbars_analyze_say_what_the_device_gets(self) -> None:
        one = self.model()
        one.forward()
        one.modules[5].change(b"with a LoRA")
        one.load(dirty=True)
        one.forward()
        own = len(one.pages(5)) * PAGE
        worker, _ = self.start()
        # Beside another one that has the shared pages: its own alone.
        self.assertTrue(daemon.wait_until(lambda: one.vbar.loaded_size() == own))
        self.assertEqual(own, model_vbar.vbars_analyze(0))
        before = self.resident()
        self.assertEqual(own, one.vbar.free_memory(1e30))
        self.assertEqual(before - own, self.resident())
        self.assertEqual((0, 0), (one.vbar.loaded_size(), model_vbar.vbars_analyze(0)))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        # And as the last that has them: all of it, in parts and as a whole.
        one.vbar.prioritize()
        one.forward()
        held = self.resident()
        self.assertTrue(daemon.wait_until(lambda: one.vbar.loaded_size() > own))
        while held:
            loaded = one.vbar.loaded_size()
            self.assertEqual(loaded, model_vbar.vbars_analyze(0))
            freed = one.vbar.free_memory(2 * PAGE)
            self.assertGreater(freed, 0)
            self.assertEqual(held - freed, self.resident())
            self.assertLessEqual(loaded - freed, one.vbar.loaded_size())
            held -= freed
        self.assertEqual((0, 0), (one.vbar.loaded_size(), model_vbar.vbars_analyze(0)))

    def test_each_counts_the_pages_that_it_alone_has(self) -> None:
        one = self.model()
        for module in one.modules[:8]:
            one.use(module)
        worker, go = self.start(tuple(range(6, 12)), workers.use_some)
        here, there = ({page for number in numbers for page in one.pages(number)} for numbers in (range(8), range(6, 12)))
        self.assertGreater(len(here & there), 0)
        self.assertTrue(daemon.wait_until(lambda: one.vbar.loaded_size() == len(here - there) * PAGE))
        before = self.resident()
        self.assertEqual(len(here - there) * PAGE, one.vbar.free_memory(1e30))
        self.assertEqual(before - len(here - there) * PAGE, self.resident())
        self.assertEqual(0, one.vbar.loaded_size())
        go.set()
        worker.join(30)
        self.assertEqual(0, worker.exitcode)

    def test_what_one_makes_private_stays_where_another_has_it_mapped(self) -> None:
        one = self.model()
        worker, go = self.start()
        shared = self.resident()
        for module in one.modules:
            module.change(b"with a LoRA")
        one.load(dirty=True)
        one.forward()
        private = one.vbar._pages._shared.table.residency().private_bytes
        self.assertEqual(shared + private, self.resident())
        go.set()
        worker.join(30)
        self.assertEqual(0, worker.exitcode, "its bytes, and nothing read again")

    def test_one_that_is_killed_leaves_the_other_s_pages(self) -> None:
        one = self.model()
        one.forward()
        alone = self.resident()
        worker, _ = self.start((5,))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        self.assertTrue(daemon.wait_until(lambda: self.resident() == alone))
        one.forward()
        self.assertEqual(24, one.counts.resident)
