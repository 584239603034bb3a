# SPDX-License-Identifier: Apache-2.0
"""Case G01: a client killed at every step of its life leaves nothing behind."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import unittest

import daemon
import wire

ROUNDS = int(os.environ.get("PENSTOCK_G01_ROUNDS", "200"))
STEPS = ("connected", "asked", "loading", "unacknowledged", "holding", "waited-for")
PIN_PAGES = 25  # 200 MiB of 8 MiB pages, or all there are.


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
    count = min(PIN_PAGES, attached.pages)
    attached.device.send(wire.device_message(wire.FAULT, attached.table, 0, count, request=1))
    if step == "loading":
        return done()
    _, batch, frames = wire.receive_device(attached.device)
    if step == "unacknowledged":
        return done()
    attached.device.send(wire.device_message(wire.GRANTED, batch=batch))
    return done(frames)


def done(*_kept: object) -> None:
    print("here", flush=True)
    sys.stdin.read()


class CaseG01(unittest.TestCase):
    program = daemon.PENSTOCKD

    def setUp(self) -> None:
        self.daemon = self.enterContext(daemon.Daemon(capacity="8192MiB", program=self.program))
        self.path = self.daemon.folder / "m.safetensors"
        daemon.write_sparse_checkpoint(self.path, tensors=20, tensor_bytes=50 * daemon.MIB)

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

    def test_it_leaves_nothing_at_any_step(self) -> None:
        for step in STEPS:
            with self.subTest(step):
                process = self.victim(step)
                if step == "waited-for":
                    waiter = subprocess.Popen([daemon.PENSTOCK, "--json", "load", self.path],
                                              env=self.daemon.environment, stdout=subprocess.DEVNULL)
                    self.end(process)
                    self.assertEqual(0, waiter.wait(timeout=20))
                else:
                    self.end(process)
                self.assertTrue(daemon.wait_until(lambda: self.clients() == 0, 1.0))
                self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["pinned_bytes"] == 0, 1.0))

    def test_nothing_grows_over_many_deaths(self) -> None:
        keeper = self.victim("holding")
        for step in STEPS:
            self.end(self.victim(step))
        self.assertTrue(daemon.wait_until(lambda: self.clients() == 1))
        descriptors, threads = self.daemon.descriptors(), self.daemon.threads()
        chance = random.Random(1)
        for _ in range(ROUNDS):
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
        # The pool of frames that are made ahead grows with the demand, and shrinks by half a second.
        self.assertTrue(daemon.wait_until(lambda: self.daemon.frames() <= 16, 30.0), f"{self.daemon.frames()} frames")
        self.assertEqual(8192 * daemon.MIB, device["budget_bytes"])
        self.assertEqual(0, device["booked_bytes"])
        self.assertEqual(0, device["stuck_bytes"])


class CaseG01OverACheckedDevice(CaseG01):
    """The same where copies are slow, and a broken rule of the device seam ends the service."""

    program = daemon.CHECKED

    def tearDown(self) -> None:
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log())


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "live":
        live(*sys.argv[2:5])
    else:
        unittest.main()
