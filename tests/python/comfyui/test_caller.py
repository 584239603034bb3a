# SPDX-License-Identifier: Apache-2.0
"""ComfyUI's calls in ComfyUI's order, and lies that they must find out."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import Any

from comfyui import workers
from comfyui.recorded_caller import Model, Moved, WrongBytes, model
from comfyui.seam import KIB, MIB, WithSeam, daemon
from penstock_comfyui.link import link
from penstock_comfyui.surface import host_buffer, model_vbar


class Caller(WithSeam):
    def run_twice(self, one: Model) -> None:
        one.load()
        one.forward()
        one.forward()

    def test_with_room_everything_is_filled_once(self) -> None:
        one = model(12, 200 * KIB)
        self.run_twice(one)
        self.assertEqual((12, 12, 0), (one.counts.filled, one.counts.resident, one.counts.offloaded))
        self.assertEqual(0, self.client()["pinned_bytes"])

    def test_without_pinned_memory_it_is_the_same(self) -> None:
        one = model(12, 200 * KIB, pinning=False)
        self.run_twice(one)
        self.assertEqual((0, 12), (one.counts.pinned, one.counts.resident))

    def test_unloading_gives_everything_back_and_loading_fills_again(self) -> None:
        one = model(6, 300 * KIB)
        self.run_twice(one)
        held = one.vbar.loaded_size()
        self.assertEqual(held, one.unload())
        self.assertEqual((0, 0), (one.vbar.loaded_size(), self.daemon.device()["resident_bytes"]))
        self.assertTrue(daemon.wait_until(lambda: self.client()["locked_host_bytes"] == 0))
        one.counts.filled = 0
        self.run_twice(one)
        self.assertEqual(6, one.counts.filled)

    def test_two_models_push_each_other_out_and_stay_right(self) -> None:
        one, two = model(20, 256 * KIB), model(20, 256 * KIB, seed=1000)
        for _ in range(3):
            for each in (one, two):
                each.load()
                each.forward()
        self.assertLessEqual(one.vbar.loaded_size() + two.vbar.loaded_size(), 8 * MIB)
        self.assertGreater(one.counts.filled + two.counts.filled + one.counts.offloaded, 40)

    def test_a_service_that_is_killed_in_the_middle_costs_speed_alone(self) -> None:
        one = model(12, 200 * KIB)
        self.run_twice(one)
        self.daemon.process.kill()
        self.daemon.process.wait()
        one.forward()  # What is here stays.
        self.assertEqual(24, one.counts.resident)
        other = model(4, 200 * KIB, seed=50)
        other.load()
        other.forward()
        self.assertEqual(4, other.counts.offloaded)
        self.restart()
        self.assertTrue(daemon.wait_until(lambda: link.service() is not None))
        third = model(4, 200 * KIB, seed=70)  # The next model.
        self.run_twice(third)
        self.assertEqual(4, third.counts.filled)
        one.load()
        one.forward()
        one.forward()

    def test_the_next_run_of_the_service_can_t_repeat_a_signature(self) -> None:
        one = model(12, 200 * KIB)
        one.load()
        one.forward()
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.restart()
        # A page that isn't here makes the library connect again; all of them start anew then.
        other = one.vbar.alloc(MIB)
        self.assertTrue(daemon.wait_until(lambda: model_vbar.vbar_fault(other) is not None))
        one.forward()
        self.assertEqual((24, 0), (one.counts.filled, one.counts.resident))

    def test_a_service_that_stops_in_order_leaves_host_buffers_readable(self) -> None:
        one = model(12, 200 * KIB)
        self.run_twice(one)
        self.assertEqual(12, one.counts.pinned)
        self.assertEqual(0, self.daemon.stop())
        self.assertEqual(one.modules[3].content(), ctypes.string_at(one.hostbuf_address + one.modules[3].pin,
                                                                    one.modules[3].nbytes))
        one.unload()
        one.load()
        one.forward()


class SmallBudget(WithSeam):
    capacity = "1536KiB"

    def test_a_fifth_of_the_model_fits_and_every_byte_is_right(self) -> None:
        one = model(30, 250 * KIB)
        one.load()
        for _ in range(3):
            one.forward()
        self.assertLessEqual(one.vbar.loaded_size(), 1536 * KIB)
        self.assertGreater(one.counts.filled + one.counts.offloaded, 60)


class NoLockedMemory(WithSeam):
    locked = "1MiB"

    def test_what_can_t_be_pinned_goes_without(self) -> None:
        one = model(12, 200 * KIB)
        one.load()
        one.forward()
        self.assertGreater(one.counts.unpinnable, 0)
        self.assertEqual(12, one.counts.filled)


class TwoProcesses(WithSeam):
    capacity = "4MiB"

    def rounds(self) -> int:
        """A driver of the tests' own copies slowly."""
        return 8 if self.kind == "host" else 2

    def test_they_share_the_budget_and_each_sees_its_own_bytes(self) -> None:
        ready = self.processes().Event()
        both = [self.worker(workers.work, str(self.daemon.socket), self.kind, 256 * KIB, seed, self.rounds(), ready)
                for seed in (1, 500)]
        for worker in both:
            worker.join(60)
        self.assertEqual([0, 0], [worker.exitcode for worker in both])

    def test_one_that_is_killed_leaves_its_room_to_the_other(self) -> None:
        ready = self.processes().Event()
        worker = self.worker(workers.work, str(self.daemon.socket), self.kind, 256 * KIB, 1, 10**6, ready)
        self.assertTrue(ready.wait(30))
        os.kill(worker.pid or 0, signal.SIGKILL)
        worker.join()
        one = model(12, 256 * KIB)
        one.load()
        one.forward()
        one.forward()
        self.assertEqual(12, one.counts.resident)


class NegativeControls(WithSeam):
    """Each of these lies is told by a seam around the real one."""

    def lying(self, **lies: Any) -> Any:
        return SimpleNamespace(**{**vars(model_vbar), **lies})

    def test_a_dishonest_serial_is_caught(self) -> None:
        one = model(4, 200 * KIB, seam=self.lying(vbar_signature_compare=lambda a, b: a is not None and b is not None))
        one.load()
        one.forward()
        one.vbar.free_memory(1e30)
        one.vbar.prioritize()
        with self.assertRaises(WrongBytes):
            one.forward()

    def test_a_new_page_that_is_taken_for_a_filled_one_is_caught(self) -> None:
        one = model(4, 200 * KIB, seam=self.lying(vbar_signature_compare=lambda a, b: True))
        one.load()
        with self.assertRaisesRegex(WrongBytes, "never filled"):
            one.forward()

    def test_a_host_buffer_that_moves_is_caught(self) -> None:
        class Moving(host_buffer.HostBuffer):
            def extend(self, size: int, reallocate: bool = False, register: bool = True) -> None:
                old, before = self._memory, self.size
                self._memory = type(old)(old.nbytes_max)
                self._memory.extend(before + size)
                self.size = self._memory.size
                self.__dict__.setdefault("all", []).append(old)

        one = model(4, 200 * KIB, buffers=SimpleNamespace(HostBuffer=Moving))
        one.load()
        with self.assertRaises(Moved):
            one.forward()

    def test_a_pinned_page_that_is_evicted_is_caught(self) -> None:
        script = textwrap.dedent("""
            import sys
            from comfyui import seam
            from comfyui.recorded_caller import model
            from penstock_comfyui import devices
            from penstock_comfyui.surface import model_vbar
            from types import SimpleNamespace

            def fault(allocation):
                signature = model_vbar.vbar_fault(allocation)
                if signature is not None:  # The lie: the pin is given up, and the page goes while it is used.
                    model_vbar.vbar_unpin(allocation)
                    allocation[0].free_memory(1e30)
                    allocation[0].prioritize()
                return signature

            seam.start_child(*sys.argv[1:])
            assert sys.argv[2] == "host" or devices.on_gpu(0) is not None
            one = model(2, 1000, seam=SimpleNamespace(**{**vars(model_vbar), "vbar_fault": fault}))
            one.load()
            print("loaded", flush=True)
            one.forward()
            """)
        done = subprocess.run([sys.executable, "-c", script, str(self.daemon.socket), self.kind], capture_output=True, text=True, check=False,
                              env=dict(os.environ, PENSTOCK_SOCKET=str(self.daemon.socket),
                                       PYTHONPATH=os.pathsep.join(path for path in sys.path if path)))
        # A driver of the tests' own ends the process, too, and says why.
        ends = -signal.SIGSEGV if self.kind == "host" else -signal.SIGABRT
        self.assertEqual(("loaded\n", ends), (done.stdout, done.returncode), done.stderr)

    def test_the_same_caller_passes_without_a_lie(self) -> None:
        one = model(4, 200 * KIB)
        one.load()
        one.forward()
        one.vbar.free_memory(1e30)
        one.vbar.prioritize()
        one.forward()
        self.assertEqual(8, one.counts.filled)


class Absent(WithSeam):
    def test_without_a_service_everything_is_offloaded_and_it_is_said_once(self) -> None:
        self.connect_to("/nonexistent/socket")
        with self.assertLogs("penstock", "WARNING") as said:
            one = model(4, 200 * KIB)
            one.load()
            one.forward()
            one.forward()
        self.assertEqual((8, 0), (one.counts.offloaded, one.counts.pinned))
        self.assertEqual(1, sum("away" in line for line in said.output), said.output)
        self.assertEqual(0, one.unload())
