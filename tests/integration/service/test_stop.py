# SPDX-License-Identifier: Apache-2.0
"""Case S05: SIGTERM in the middle of things: exit 0 within 5 s, an orderly word to clients, the socket gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import unittest

import daemon
import hanging_files
import wire
from on_gpu import OnEachDevice


class CaseS05(OnEachDevice, unittest.TestCase):
    def assert_clean(self, running: daemon.Daemon, seconds: float = 5.0) -> None:
        start = time.monotonic()
        code = running.stop()
        self.assertEqual(0, code, running.log())
        self.assertLess(time.monotonic() - start, seconds)
        self.assertFalse(running.socket.exists())

    def test_an_idle_service_stops(self) -> None:
        with self.make() as running:
            self.assert_clean(running)

    def test_it_stops_with_reads_in_flight_on_a_slow_disk(self) -> None:
        with self.make(capacity="512MiB", extra='[reader]\nbandwidth = "4MiB"\n') as running:
            path = running.folder / "m.safetensors"
            daemon.write_checkpoint(path, tensors=32)
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            load = subprocess.Popen([daemon.PENSTOCK, "--json", "load", path], env=running.environment,
                                    stdout=subprocess.PIPE, text=True)
            self.assertTrue(daemon.wait_until(lambda: running.device()["used_bytes"] > 0))
            self.assert_clean(running)
            out, _ = load.communicate(timeout=10)
            self.assertEqual(1, load.returncode)
            self.assertIn('"kind"', out)

    @unittest.skipIf(hanging_files.missing_requirement(), hanging_files.missing_requirement())
    def test_it_stops_in_the_middle_of_a_header(self) -> None:
        with self.make() as running:
            model = running.folder / "m"
            daemon.write_checkpoint(model)
            with hanging_files.HangingFiles(running.folder / "slow", model.read_bytes()) as slow:
                link = self.enterContext(running.connect())
                wire.hello(link)
                descriptor = os.open(slow.path, os.O_RDONLY)
                slow.freeze()
                wire.send_checkpoint(link, descriptor, "m.safetensors")
                self.assertTrue(daemon.wait_until(lambda: "fuse" in running.stacks()), running.stacks())
                running.process.send_signal(signal.SIGTERM)
                self.assertTrue(daemon.wait_until(lambda: "stopping" in running.log()))
                slow.thaw()
                self.assertEqual(0, running.process.wait(timeout=5), running.log())
                os.close(descriptor)

    @unittest.skipIf(hanging_files.missing_requirement(), hanging_files.missing_requirement())
    def test_it_stops_although_a_file_never_answers_and_names_it(self) -> None:
        with self.make() as running:
            model = running.folder / "m"
            daemon.write_checkpoint(model)
            with hanging_files.HangingFiles(running.folder / "hung", model.read_bytes()) as hung:
                link = self.enterContext(running.connect())
                attached = wire.attach(link, str(hung.path), events=True)
                hung.freeze()
                attached.device.send(wire.device_message(wire.FAULT, attached.table, 0, attached.pages, request=1))
                self.assertTrue(daemon.wait_until(lambda: running.device()["used_bytes"] > 0))
                start = time.monotonic()
                running.process.send_signal(signal.SIGTERM)
                # It waits for the read; whoever asks for something now is refused.
                self.assertEqual(wire.CLOSING, wire.receive(link).type)
                wire.ask_checkpoint(link, str(model), request=6)
                refused = wire.receive(link)
                self.assertEqual(wire.FAILURE, refused.type)
                self.assertIn("stopping", wire.failure_text(refused))
                self.assertEqual(1, running.process.wait(timeout=9), running.log())
                self.assertLess(time.monotonic() - start, 8, "longer than TimeoutStopSec may be")
                self.assertIn(str(hung.path), running.log().splitlines()[-1])
                self.assertFalse(running.socket.exists())
                attached.device.close()

    def test_it_stops_with_two_clients_mapped_and_tells_them(self) -> None:
        with self.make() as running:
            path = running.folder / "m.safetensors"
            daemon.write_checkpoint(path)
            links = []
            for _ in range(2):
                link = self.enterContext(running.connect())
                links.append(wire.attach(link, str(path), events=True))
            for attached in links:
                attached.device.send(wire.device_message(wire.FAULT, attached.table, 0, attached.pages, request=1))
                kind, _, frames = wire.receive_device(attached.device)
                self.assertEqual(wire.GRANTS, kind)
                self.addCleanup(lambda frames=frames: [os.close(frame) for frame in frames])
            self.assert_clean(running)
            for attached in links:
                kinds = []
                with self.assertRaises((ConnectionError, OSError)):
                    while True:
                        kinds.append(wire.receive(attached.control).type)
                self.assertIn(wire.CLOSING, kinds)
                with attached.device:
                    told = iter(lambda device=attached.device: wire.receive_device(device)[0], None)
                    self.assertIn(wire.DEVICE_CLOSING, told)

    def test_a_second_signal_changes_nothing(self) -> None:
        with self.make() as running:
            running.process.send_signal(signal.SIGTERM)
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(0, running.process.wait(timeout=5))

    def test_a_signal_before_it_is_ready_is_obeyed(self) -> None:
        for _ in range(10):
            with self.make(wait=False) as running:
                # As soon as the program has its handlers: its log says something.
                daemon.wait_until(lambda running=running: bool(running.log()) or running.process.poll() is not None)
                running.process.send_signal(signal.SIGTERM)
                self.assertEqual(0, running.process.wait(timeout=5), running.log())

    def test_a_stopped_service_is_unreachable(self) -> None:
        with self.make() as running:
            self.assert_clean(running)
            self.assertEqual("unreachable", running.ask("status")["error"]["kind"])

    def test_the_service_manager_hears_ready_and_stopping(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            name = f"\0penstock-test-{os.getpid()}"
            manager.bind(name)
            manager.settimeout(10)
            with self.make(environment={"NOTIFY_SOCKET": "@" + name[1:]}) as running:
                self.assertIn(b"READY=1", manager.recv(4096))
                self.assertTrue(running.is_serving(), "ready only when the socket accepts")
                self.assert_clean(running)
                self.assertIn(b"STOPPING=1", manager.recv(4096))

    def test_hang_up_reloads_and_user_signal_logs_the_state(self) -> None:
        with self.make() as running:
            running.config.write_text(running.config.read_text() + '[log]\nlevel = "debug"\n')
            running.process.send_signal(signal.SIGHUP)
            self.assertTrue(daemon.wait_until(lambda: "log.level" in running.log()), running.log())
            running.process.send_signal(signal.SIGUSR1)
            self.assertTrue(daemon.wait_until(lambda: f"device {self.vendor}" in running.log()), running.log())
            self.assertTrue(running.is_serving())


class CaseS05OnCuda(CaseS05):
    vendor = "cuda"


class CaseS05OnHip(CaseS05):
    vendor = "hip"


if __name__ == "__main__":
    unittest.main()
