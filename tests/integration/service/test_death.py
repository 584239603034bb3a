# SPDX-License-Identifier: Apache-2.0
"""Case G01: a client killed at every step of its life leaves nothing behind."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
import unittest

import daemon
import wire
from on_gpu import OnGpu
from test_gpu_devices import needs_fakes

STEPS = ("connected", "asked", "loading", "unacknowledged", "holding", "waited-for")
BOOKED = 5000 * daemon.MIB  # Of 8192: no second one fits.
PIN_PAGES = 25  # Of 8 MiB.
PINNED = PIN_PAGES * 8 * daemon.MIB


def live(socket_path: str, checkpoint: str, step: str) -> None:
    """The life of the victim up to its step; then it says so and waits for its end."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(socket_path)
    if step == "connected":
        return done()
    if step == "asked":
        wire.hello(link)
        wire.ask_checkpoint(link, checkpoint)
        return done()
    attached = wire.attach(link, checkpoint)
    count = PIN_PAGES
    attached.device.send(wire.device_message(wire.FAULT, attached.table, 0, count, request=1))
    if step == "loading":
        return done()
    frames: list[int] = []
    while len(frames) < count:  # They come as they are read.
        _, batch, granted = wire.receive_device(attached.device)
        if step == "unacknowledged":
            return done(granted)
        attached.device.send(wire.device_message(wire.GRANTED, batch=batch))
        frames += granted
    attached.pin(count)
    if step == "waited-for":
        wire.ask_admission(link, BOOKED, 5.0)
        assert wire.receive(link).type == wire.ADMIT_REPLY
    return done(frames)


def done(*_kept: object) -> None:
    print("here", flush=True)
    sys.stdin.read()


class CaseG01(unittest.TestCase):
    program = daemon.PENSTOCKD
    rounds = 50

    def setUp(self) -> None:
        self.daemon = self.enterContext(self.start())
        self.path = self.daemon.folder / "m.safetensors"
        daemon.write_sparse_checkpoint(self.path, tensors=20, tensor_bytes=50 * daemon.MIB)

    def start(self) -> daemon.Daemon:
        return daemon.Daemon(capacity="8192MiB", program=self.program)

    def victim(self, step: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, __file__, "live", str(self.daemon.socket), str(self.path), step],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self.assertEqual("here", process.stdout.readline().strip())
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()

    def clients(self) -> int:
        # The asking command is one itself.
        return len(self.daemon.ask("status")["clients"]) - 1

    def held(self) -> tuple[int, int]:
        device = self.daemon.device()
        return device["pinned_bytes"], device["booked_bytes"]

    def waiting(self) -> int:
        """Demands that have been put into the queue."""
        return [decision["kind"] for decision in self.daemon.ask("explain")["decisions"]].count("queue")

    def test_it_leaves_nothing_at_any_step(self) -> None:
        for step in STEPS:
            with self.subTest(step):
                process = self.victim(step)
                if step in ("holding", "waited-for"):
                    self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["pinned_bytes"] == PINNED))
                if step == "waited-for":
                    self.assertEqual(BOOKED, self.daemon.device()["booked_bytes"])
                    with self.daemon.connect() as waiter:
                        wire.hello(waiter)
                        wire.ask_admission(waiter, BOOKED, 20.0)
                        self.assertTrue(daemon.wait_until(lambda: self.waiting() == 1))
                        self.end(process)
                        start = time.monotonic()
                        self.assertEqual(wire.ADMIT_REPLY, wire.receive(waiter).type)
                        self.assertLess(time.monotonic() - start, 1.0)
                else:
                    self.end(process)
                end = time.monotonic() + 1.0
                while any((self.clients(), *self.held())) and time.monotonic() < end:
                    pass
                self.assertEqual((0, 0, 0), (self.clients(), *self.held()))

    def test_nothing_grows_over_many_deaths(self) -> None:
        keeper = self.victim("holding")
        for step in STEPS:
            self.end(self.victim(step))
        self.assertTrue(daemon.wait_until(lambda: self.clients() == 1))
        descriptors, threads = self.daemon.descriptors(), self.daemon.threads()
        chance = random.Random(1)
        for _ in range(self.rounds):
            self.end(self.victim(chance.choice(STEPS)))
        self.assertTrue(daemon.wait_until(lambda: self.clients() == 1, 1.0))
        self.assertTrue(daemon.wait_until(lambda: self.daemon.descriptors() <= descriptors, 5.0),
                        f"{self.daemon.descriptors()} descriptors after {descriptors}")
        self.assertLessEqual(self.daemon.threads(), threads)
        self.assertEqual(1, len(self.daemon.ask("status")["checkpoints"]))
        self.end(keeper)
        self.daemon.ask("evict", "--all")
        device = self.daemon.device()
        self.assertEqual(0, device["used_bytes"])
        # The pool of frames that are made ahead grows with the demand, maybe to all of the capacity, and is halved each
        # second from when it is full.
        self.assertTrue(daemon.wait_until(lambda: self.daemon.frames() <= 16, 120.0), f"{self.daemon.frames()} frames")
        self.assertEqual(8192 * daemon.MIB, device["budget_bytes"])
        self.assertEqual(0, device["booked_bytes"])
        self.assertEqual(0, device["stuck_bytes"])


class CaseG01OnCuda(CaseG01):
    """The same on frames of a GPU, as many and as large. A frame there is copied, so fewer die."""

    vendor = "cuda"
    rounds = 10

    def start(self) -> daemon.Daemon:
        needs_fakes(self, self.vendor)
        return OnGpu(self.vendor, capacity="8192MiB", device_bytes="9GiB")


class CaseG01OnHip(CaseG01OnCuda):
    vendor = "hip"


class CaseG01OverACheckedDevice(CaseG01):
    """The same where copies are slow, and a broken rule of the device seam ends the service."""

    program = daemon.CHECKED
    rounds = 200

    def tearDown(self) -> None:
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log())


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "live":
        live(*sys.argv[2:5])
    else:
        unittest.main()
