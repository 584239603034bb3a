# SPDX-License-Identifier: Apache-2.0
"""Each call of the pager seam and each of its rules, on the real service."""

from __future__ import annotations

import ctypes
import gc
import unittest
import unittest.mock
from typing import Any

from comfyui.seam import KIB, MIB, PAGE, WithSeam, daemon, peek, poke
from penstock_comfyui import devices, host_memory, safe_points
from penstock_comfyui.surface import control, host_buffer, model_mmap, model_vbar, vram_buffer


class Faults(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.vbar = model_vbar.ModelVBAR(4 * MIB, 0)

    def test_allocations_are_aligned_and_behind_each_other(self) -> None:
        first, second = self.vbar.alloc(1000), self.vbar.alloc(5)
        self.assertEqual((self.vbar, self.vbar.base_addr, 1000), first)
        self.assertEqual((self.vbar, self.vbar.base_addr + 1024, 5), second)

    def test_an_allocation_beyond_the_end_is_refused(self) -> None:
        with self.assertRaises(MemoryError):
            self.vbar.alloc(4 * MIB + 1)

    def test_a_reservation_costs_nothing_and_may_be_ten_times_the_device(self) -> None:
        big = model_vbar.ModelVBAR(80 * MIB, 0)
        self.assertEqual(0, big.loaded_size())
        self.assertEqual(320, big.get_nr_pages())

    def test_a_fault_gives_memory_and_the_same_signature_again(self) -> None:
        allocation = self.vbar.alloc(PAGE + 1)
        first = model_vbar.vbar_fault(allocation)
        poke(allocation[1], b"weights")
        model_vbar.vbar_unpin(allocation)
        again = model_vbar.vbar_fault(allocation)
        self.assertTrue(model_vbar.vbar_signature_compare(first, again))
        self.assertEqual(b"weights", peek(allocation[1], 7))
        self.assertEqual(2 * PAGE, self.vbar.loaded_size())

    def test_a_signature_is_never_equal_to_none(self) -> None:
        signature = model_vbar.vbar_fault(self.vbar.alloc(1))
        self.assertFalse(model_vbar.vbar_signature_compare(None, signature))
        self.assertFalse(model_vbar.vbar_signature_compare(signature, None))
        self.assertFalse(model_vbar.vbar_signature_compare(None, None))

    def test_an_evicted_page_has_another_serial(self) -> None:
        allocation = self.vbar.alloc(10)
        first = model_vbar.vbar_fault(allocation)
        model_vbar.vbar_unpin(allocation)
        self.assertEqual(PAGE, self.vbar.free_memory(1))
        self.vbar.prioritize()
        again = model_vbar.vbar_fault(allocation)
        self.assertFalse(model_vbar.vbar_signature_compare(first, again))

    def test_more_than_the_device_has_is_offloaded(self) -> None:
        vbar = model_vbar.ModelVBAR(80 * MIB, 0)
        self.assertIsNone(model_vbar.vbar_fault(vbar.alloc(12 * MIB)))
        self.assertEqual(0, vbar.loaded_size())

    def test_a_range_outside_is_wrong_use(self) -> None:
        with self.assertRaises(RuntimeError):
            self.vbar.fault(self.vbar.base_addr + 4 * MIB, 1)

    def test_two_vbars_have_their_own_pages(self) -> None:
        other = model_vbar.ModelVBAR(4 * MIB, 0)
        one, two = self.vbar.alloc(8), other.alloc(8)
        model_vbar.vbar_fault(one)
        model_vbar.vbar_fault(two)
        poke(one[1], b"1" * 8)
        poke(two[1], b"2" * 8)
        self.assertEqual(b"1" * 8, peek(one[1], 8))


class Pins(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.vbar = model_vbar.ModelVBAR(4 * MIB, 0)

    def test_a_pinned_page_is_not_freed(self) -> None:
        pinned, idle = self.vbar.alloc(PAGE), self.vbar.alloc(PAGE)
        model_vbar.vbar_fault(pinned)
        model_vbar.vbar_fault(idle)
        model_vbar.vbar_unpin(idle)
        self.assertEqual(PAGE, self.vbar.free_memory(1e30))
        self.assertEqual(PAGE, self.vbar.loaded_size())
        self.assertEqual([3, 0], self.vbar.get_residency()[:2])

    def test_pins_nest(self) -> None:
        allocation = self.vbar.alloc(1)
        model_vbar.vbar_fault(allocation)
        model_vbar.vbar_fault(allocation)
        model_vbar.vbar_unpin(allocation)
        self.assertEqual(0, self.vbar.free_memory(1e30))
        model_vbar.vbar_unpin(allocation)
        self.assertEqual(PAGE, self.vbar.free_memory(1e30))

    def test_a_stray_unpin_takes_nobodys_pin(self) -> None:
        one, neighbour = self.vbar.alloc(1), self.vbar.alloc(1)
        model_vbar.vbar_fault(neighbour)
        for _ in range(3):
            model_vbar.vbar_unpin(one)
        model_vbar.vbar_unpin(None)
        self.assertEqual(0, self.vbar.free_memory(1e30))
        model_vbar.vbar_fault(one)
        model_vbar.vbar_unpin(one)
        model_vbar.vbar_unpin(neighbour)
        self.assertEqual(PAGE, self.vbar.free_memory(1e30))

    def test_the_service_counts_what_we_count(self) -> None:
        allocation = self.vbar.alloc(3 * PAGE)
        model_vbar.vbar_fault(allocation)
        self.assertEqual(3 * PAGE, self.client()["pinned_bytes"])
        self.assertEqual(3 * PAGE, model_vbar.vbars_analyze(0))
        self.assertEqual(3 * PAGE, model_vbar.vbars_analyze(None))
        model_vbar.vbar_unpin(allocation)
        self.assertEqual(3 * PAGE, self.vbar.free_memory(1e32))
        self.assertEqual(0, self.daemon.device()["resident_bytes"])
        self.assertEqual(0, model_vbar.vbars_analyze())


class Room(WithSeam):
    def nothing_is_resident(self) -> bool:
        """On a GPU what work still uses when its user drops it goes at a later call of any model's."""
        gc.collect()
        safe_points.with_service(lambda service: service.run_revokes())
        return bool(self.daemon.device()["resident_bytes"] == 0)

    def setUp(self) -> None:
        super().setUp()
        self.vbar = model_vbar.ModelVBAR(4 * MIB, 0)
        self.parts = [self.vbar.alloc(PAGE) for _ in range(4)]
        for part in self.parts:
            model_vbar.vbar_fault(part)
            model_vbar.vbar_unpin(part)

    def test_memory_is_freed_from_the_end_in_true_bytes(self) -> None:
        self.assertEqual(2 * PAGE, self.vbar.free_memory(2 * PAGE - 1))
        self.assertEqual([1, 1, 0, 0], self.vbar.get_residency()[:4])
        self.assertEqual(2 * PAGE, self.vbar.loaded_size())

    def test_what_was_freed_stays_free_until_the_model_is_loaded_again(self) -> None:
        self.vbar.free_memory(PAGE)
        self.assertEqual(3, self.vbar.get_watermark())
        self.assertIsNone(model_vbar.vbar_fault(self.parts[3]))
        self.assertIsNotNone(model_vbar.vbar_fault(self.parts[2]))
        self.vbar.prioritize()
        self.assertIsNotNone(model_vbar.vbar_fault(self.parts[3]))

    def test_a_watermark_limit_keeps_the_start(self) -> None:
        self.vbar.set_watermark_limit(3 * PAGE)
        self.assertEqual(PAGE, self.vbar.free_memory(1e30))
        model_vbar.vbars_reset_watermark_limits()
        self.assertEqual(3 * PAGE, self.vbar.free_memory(1e30))

    def test_a_watermark_offloads_what_is_above(self) -> None:
        self.vbar.free_memory(1e30)
        self.vbar.prioritize()
        self.vbar.set_watermark(PAGE)
        self.assertIsNotNone(model_vbar.vbar_fault(self.parts[0]))
        self.assertIsNone(model_vbar.vbar_fault(self.parts[1]))

    def test_freeing_nothing_changes_nothing(self) -> None:
        self.assertEqual(0, self.vbar.free_memory(0))
        self.assertIsNotNone(model_vbar.vbar_fault(self.parts[3]))

    def test_close_gives_everything_back(self) -> None:
        self.vbar.close()
        self.assertEqual(0, model_vbar.vbars_analyze())
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))

    def test_what_is_still_pinned_goes_with_it(self) -> None:
        for end in (lambda: self.vbar.close(), lambda: delattr(self, "vbar")):
            self.assertIsNotNone(model_vbar.vbar_fault(self.parts[0]))
            self.assertIsNotNone(model_vbar.vbar_fault(self.parts[0]))
            devices.wait_for(0)
            self.parts.clear()
            end()
            self.assertTrue(daemon.wait_until(self.nothing_is_resident))
            self.vbar = model_vbar.ModelVBAR(4 * MIB, 0)
            self.parts = [self.vbar.alloc(PAGE)]

    def test_a_vbar_ends_with_its_last_reference(self) -> None:
        del self.vbar, self.parts
        self.assertTrue(daemon.wait_until(self.nothing_is_resident))


class Priorities(WithSeam):
    capacity = "2MiB"

    def test_what_was_prioritised_last_goes_last(self) -> None:
        for last in (0, 1):
            with self.subTest(last=last):
                models = [model_vbar.ModelVBAR(4 * MIB, 0) for _ in range(2)]
                parts = [one.alloc(4 * PAGE) for one in models]
                models[1 - last].prioritize()
                models[last].prioritize()
                for part in (parts[last], parts[1 - last]):  # That it was used last doesn't save the other one.
                    self.assertIsNotNone(model_vbar.vbar_fault(part))
                    model_vbar.vbar_unpin(part)
                third = model_vbar.ModelVBAR(4 * MIB, 0).alloc(3 * PAGE)
                devices.wait_for(0)
                safe_points.with_service(lambda service: service.set_idle(True))
                self.assertIsNotNone(model_vbar.vbar_fault(third))
                self.assertEqual((4 * PAGE, PAGE), (models[last].loaded_size(), models[1 - last].loaded_size()))
                third[0].close()
                for one in models:
                    one.close()


class Buffers(WithSeam):
    locked = "16MiB"

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(unittest.mock.patch.object(host_memory, "GRANULE", 8 * MIB))

    def device_memory(self, data: bytes) -> Any:
        """An allocation that is pinned."""
        part = model_vbar.ModelVBAR(MIB, 0).alloc(len(data))
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        self.addCleanup(model_vbar.vbar_unpin, part)
        poke(part[1], data)
        return part

    def test_an_empty_host_buffer_costs_nothing(self) -> None:
        buffers = [host_buffer.HostBuffer(0, 0, 0) for _ in range(200)]
        self.assertTrue(all(one.size == 0 for one in buffers))
        self.assertEqual(0, self.daemon.ask("status")["host"]["locked_bytes"])

    def test_the_address_survives_growth_and_truncation(self) -> None:
        buffer = host_buffer.HostBuffer(0, 64 * MIB, 32 * MIB)
        buffer.extend(size=1000, register=False)
        address = buffer.get_raw_address()
        ctypes.memmove(address, b"first", 5)
        buffer.extend(9 * MIB)
        ctypes.memset(address + buffer.size - 1, 1, 1)
        buffer.truncate(1000, do_unregister=False)
        buffer.extend(size=9 * MIB)
        self.assertEqual((address, b"first", 1000 + 9 * MIB),
                         (buffer.get_raw_address(), ctypes.string_at(address, 5), buffer.size))

    def test_it_comes_out_of_the_node_s_locked_memory_and_goes_back(self) -> None:
        buffer = host_buffer.HostBuffer(0, 0, 32 * MIB)
        buffer.extend(9 * MIB)
        self.assertEqual(16 * MIB, self.client()["locked_host_bytes"])
        buffer.truncate(MIB)
        self.assertTrue(daemon.wait_until(lambda: self.client()["locked_host_bytes"] == 8 * MIB))
        buffer.truncate(0)
        self.assertTrue(daemon.wait_until(lambda: self.client()["locked_host_bytes"] == 0))

    def test_beyond_the_budget_is_a_runtime_error_and_changes_nothing(self) -> None:
        buffer = host_buffer.HostBuffer(0, 0, 32 * MIB)
        buffer.extend(MIB)
        with self.assertRaises(RuntimeError):
            buffer.extend(20 * MIB)
        self.assertEqual(MIB, buffer.size)
        buffer.extend(MIB)

    def test_a_file_s_slice_lands_in_it(self) -> None:
        path = self.daemon.folder / "file"
        path.write_bytes(bytes(range(256)) * 16)
        mapped = model_mmap.ModelMMAP(str(path))
        buffer = host_buffer.HostBuffer(100)
        device = self.device_memory(bytes(50))
        buffer.read_file_slice(mapped.get_file_handle(), 300, 50, offset=10, stream=0, device_ptr=device[1], device=0)
        wanted = path.read_bytes()[300:350]
        self.assertEqual((wanted, wanted), (ctypes.string_at(buffer.get_raw_address() + 10, 50), peek(device[1], 50)))
        self.assertEqual(wanted, ctypes.string_at(mapped.get() + 300, 50))
        mapped.bounce()
        self.assertEqual(wanted, ctypes.string_at(mapped.get() + 300, 50))
        with self.assertRaises(RuntimeError):
            buffer.read_file_slice(mapped.get_file_handle(), 0, 50, offset=60)

    def test_a_slice_makes_room_for_itself(self) -> None:
        path = self.daemon.folder / "file"
        path.write_bytes(bytes(range(256)) * 16)
        buffer = host_buffer.HostBuffer(100, 0, 4096)
        with open(path, "rb") as file:
            buffer.read_file_slice(file, 300, 500, offset=60)
            self.assertEqual((560, path.read_bytes()[300:800]),
                             (buffer.size, ctypes.string_at(buffer.get_raw_address() + 60, 500)))
            with self.assertRaises(RuntimeError):
                buffer.read_file_slice(file, 0, 500, offset=4000)
            self.assertEqual(560, buffer.size)
        with self.assertRaises(RuntimeError):
            buffer.read_file_slice(1 << 20, 0, 50)  # No such descriptor.

    def test_a_file_that_ends_early_is_told(self) -> None:
        path = self.daemon.folder / "short"
        path.write_bytes(b"0123")
        memory = self.device_memory(bytes(8))
        with open(path, "rb") as file, self.assertRaises(RuntimeError):
            host_buffer.read_file_to_device(file, 0, 8, 0, memory[1], 0, mark_cold=False)

    def test_files_can_be_written(self) -> None:
        path = self.daemon.folder / "out"
        memory, device = (ctypes.c_ubyte * 4)(*b"efgh"), self.device_memory(b"abcd")
        with open(path, "wb") as file:
            host_buffer.write_device_to_file(file, 0, 4, 0, device[1], 0)
            host_buffer.write_host_to_file(file, 4, 4, ctypes.addressof(memory))
        self.assertEqual(b"abcdefgh", path.read_bytes())


class CastBuffers(WithSeam):
    """In host memory; test_gpu_seam has those of GPUs."""

    def test_a_cast_buffer_grows_at_its_address_and_is_counted(self) -> None:
        buffer = vram_buffer.VRAMBuffer(16 << 30, 0)
        owner, address, size = buffer.get(100 * KIB, 0)
        self.assertEqual((buffer, 100 * KIB, 100 * KIB), (owner, size, buffer.size()))
        poke(address, b"1")
        self.assertEqual(address + 512, buffer.get(MIB, 512)[1])
        self.assertEqual(MIB + 512, buffer.size())
        buffer.get(1, 0)
        self.assertEqual(MIB + 512, control.get_total_vram_usage())
        self.assertEqual(MIB + 512, self.daemon.device()["booked_bytes"])
        del buffer, owner
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["booked_bytes"] == 0))


class Control(WithSeam):
    def test_devices_of_host_memory_are_ours(self) -> None:
        self.assertTrue(control.lib)
        self.assertTrue(control.init(simple_vram_headroom=5))
        self.assertTrue(control.init_devices((one, 0) for one in (0,)))
        self.assertTrue(control.init_device(0))
        self.assertIsNotNone(control.get_devctx(0))
        self.assertEqual(5, control.get_simple_vram_headroom())
        control.set_simple_vram_headroom(6)
        self.assertEqual(6, control.get_simple_vram_headroom())
        control.analyze()
        control.deinit()
        with self.assertRaises(RuntimeError):
            control.get_devctx(0)

    def test_a_device_without_number_is_not_ours(self) -> None:
        self.assertFalse(control.init_devices([None]))


if __name__ == "__main__":
    unittest.main()
