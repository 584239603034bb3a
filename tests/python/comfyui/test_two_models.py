# SPDX-License-Identifier: Apache-2.0
"""Two models of one file in one process, as two loaders of it make them. One at a time has the file's table."""

from __future__ import annotations

import gc
import threading

from comfyui.recorded_caller import Model, filed_model
from comfyui.seam import KIB, MIB, PAGE, WithSeam, daemon
from penstock_comfyui.surface import model_vbar


class TwoModels(WithSeam):
    capacity = "16MiB"

    def model(self) -> Model:
        return filed_model(self.daemon.folder / "m12.safetensors", 12, 200 * KIB)

    def both(self) -> tuple[Model, Model]:
        one, two = self.model(), self.model()
        one.load()
        two.load()
        return one, two

    def shares(self, one: Model) -> list[bool]:
        return [one.vbar._pages.is_shared(module.allocation[1]) for module in one.modules]

    def resident(self) -> int:
        return int(self.daemon.device()["resident_bytes"])

    def test_what_one_changes_the_other_does_not_see(self) -> None:
        for changed, whole in ((0, 1), (1, 0)):
            with self.subTest(changed=changed):
                models = self.both()
                self.assertEqual([True, False], [all(self.shares(models[0])), any(self.shares(models[1]))])
                models[changed].modules[5].change(b"with a LoRA")
                models[changed].load(dirty=True)
                for _ in range(2):
                    models[changed].forward()
                    models[whole].forward()
                del models
                gc.collect()

    def test_one_that_nobody_has_any_more_is_no_other_one(self) -> None:
        """Whether Python has found that out or not: ComfyUI's models are in cycles, and it collects every ten seconds."""
        gc.disable()
        self.addCleanup(gc.enable)
        first = self.model()
        first.modules[5].change(b"with a LoRA")
        first.load(dirty=True)
        first.forward()
        cycle: list[object] = [first]
        cycle.append(cycle)
        del first, cycle
        one = self.model()
        one.load()
        self.assertTrue(all(self.shares(one)))
        one.forward()
        self.assertEqual(12, one.counts.resident)

    def test_two_changes_of_one_module_are_two(self) -> None:
        one, two = self.both()
        one.modules[5].change(b"LoRA A")
        two.modules[5].change(b"LoRA B")
        for each in (one, two, one, two):
            each.load(dirty=each.counts.resident == 0)
            each.forward()

    def test_room_that_one_made_is_not_the_other_s(self) -> None:
        one, two = self.both()
        one.forward()
        two.forward()
        self.assertGreater(one.vbar.free_memory(1e30), 0)
        two.forward()
        self.assertEqual((0, 24), (two.counts.offloaded, two.counts.resident + two.counts.filled))
        one.load()
        one.forward()
        self.assertGreater(two.vbar.free_memory(1e30), 0)
        one.forward()
        self.assertEqual((0, 36), (one.counts.offloaded, one.counts.resident))

    def test_pages_are_counted_once(self) -> None:
        one, two = self.both()
        one.forward()
        alone = self.resident()
        two.forward()
        self.assertEqual((alone, self.resident() - alone), (one.vbar.loaded_size(), two.vbar.loaded_size()))
        self.assertEqual(self.resident(), model_vbar.vbars_analyze(0))
        self.assertEqual(alone, one.vbar.free_memory(1e30))
        self.assertEqual(self.resident(), model_vbar.vbars_analyze(0))

    def test_when_the_first_is_gone_the_next_one_has_the_table_as_the_file_has_it(self) -> None:
        for closed in (False, True):
            with self.subTest(closed=closed):
                one = self.model()
                one.modules[5].change(b"with a LoRA")
                one.load(dirty=True)
                one.forward()
                one.vbar.free_memory(PAGE)  # Leaves a cut-off.
                self.assertTrue(all(self.shares(one)))
                if closed:
                    one.vbar.close()
                else:
                    del one
                    gc.collect()
                self.assertTrue(daemon.wait_until(self.next_shares))

    def next_shares(self) -> bool:
        """Whether it does or not, its bytes are right. Pages may linger where queued work might use them."""
        one = self.model()
        one.load()
        one.forward()
        one.forward()
        found = all(self.shares(one)) and (one.counts.resident, one.counts.offloaded) == (24, 0)
        del one
        gc.collect()
        return found

    def test_one_that_is_closed_with_pins_leaves_none(self) -> None:
        one = self.model()
        one.load()
        self.assertIsNotNone(model_vbar.vbar_fault(one.modules[3].allocation))
        one.vbar.close()
        two = self.model()
        two.load()
        two.forward()
        self.assertGreater(two.vbar.loaded_size(), 0)
        self.assertEqual(two.vbar.loaded_size(), two.vbar.free_memory(1e30))

    def test_of_many_that_ask_at_once_one_has_it(self) -> None:
        models = [self.model() for _ in range(8)]
        start = threading.Barrier(len(models))

        def load(one: Model) -> None:
            start.wait()
            one.load()

        threads = [threading.Thread(target=load, args=(one,)) for one in models]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        self.assertEqual(1, sum(all(self.shares(one)) for one in models))
        self.assertEqual(7, sum(not any(self.shares(one)) for one in models))
