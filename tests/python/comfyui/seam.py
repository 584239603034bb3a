# SPDX-License-Identifier: Apache-2.0
"""What the tests of the pager seam share: a service with small pages, and the seam's modules connected to it.

A class has one service; each test has a connection of its own, and leaves no client behind.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import unittest
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import daemon
from penstock_comfyui import devices, read_ahead
from penstock_comfyui.gpu import Driver
from penstock_comfyui.link import link

KIB = 1 << 10
MIB = 1 << 20
PAGE = 256 * KIB
GPU_SCALE = 8

FAKES = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.7"}
_fakes: dict[str, ctypes.CDLL] = {}


def poke(address: int, data: bytes) -> None:
    """Into memory of the device of the test that runs."""
    driver = devices.driver_of(0)
    if driver is None:
        ctypes.memmove(address, data, len(data))
        return
    source = ctypes.create_string_buffer(data, len(data))
    driver.copy_in(ctypes.addressof(source), address, len(data))


def peek(address: int, nbytes: int) -> bytes:
    driver = devices.driver_of(0)
    if driver is None:
        return ctypes.string_at(address, nbytes)
    data = ctypes.create_string_buffer(max(nbytes, 1))
    driver.copy_out(address, ctypes.addressof(data), nbytes)
    return data.raw[:nbytes]


def enter_context(kind: str) -> None:
    """What torch does in each thread that uses a GPU."""
    library = _fakes.get(kind)
    if library is None:
        return
    if kind == "hip":
        assert library.hipInit(0) == 0 and library.hipSetDevice(0) == 0
        return
    context = ctypes.c_void_p()
    assert library.cuInit(0) == 0 and library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert library.cuCtxSetCurrent(context) == 0


def load_fake(kind: str) -> None:
    """The tests' driver of that kind, for this process; from now on it is found by its name."""
    path = daemon.BUILD / "fakes" / kind / FAKES[kind]
    if not path.exists():
        raise unittest.SkipTest(f"requires {path}")
    os.environ.update(SmallDaemon.fake_settings)
    _fakes[kind] = ctypes.CDLL(str(path))
    Driver(kind, _fakes[kind])
    enter_context(kind)


def start_child(socket: str, kind: str) -> None:
    """In a process of processes(): a connection of its own."""
    if kind != "host":
        load_fake(kind)
        os.environ[devices.ON_GPUS] = "1"
    link.reset(socket)
    devices.forget()


class SmallDaemon(daemon.Daemon):
    """penstockd with pages of 256 KiB, on GPUs of 2 MiB: everything is as many times larger there."""

    fake_settings = {"PENSTOCK_FAKE_DEVICE_BYTES": "1GiB", "PENSTOCK_FAKE_STREAM_DELAY_US": "10"}

    def __init__(self, capacity: str, locked: str = "64MiB", kind: str = "host") -> None:
        self.kind = kind
        self.locked = self.scaled(locked)
        fake = {**self.fake_settings, "LD_LIBRARY_PATH": str(daemon.BUILD / "fakes" / kind)} if kind != "host" else {}
        super().__init__(capacity=self.scaled(capacity), environment=fake)

    def scaled(self, size: str) -> str:
        number, unit = size[:-3], size[-3:]
        return f"{int(number) * (1 if self.kind == 'host' else GPU_SCALE)}{unit}"

    def default_config(self, capacity: str, extra: str) -> str:
        pages = self.scaled("256KiB")
        enabled = 'enabled = "on"\n' if self.kind == "host" else ""
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\nrevoke_deadline = "1s"\n'
                f'[host]\nlocked_bytes = "{self.locked}"\n[device.{self.kind}]\n{enabled}capacity = "{capacity}"\n'
                f'headroom = "0"\npage_bytes = "{pages}"\n[metrics]\nlisten = "127.0.0.1:0"\n')

    def restart(self) -> None:
        """Until it answers: its log still says of the run before that it is ready."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.start()
        assert daemon.wait_until(lambda: "devices" in self.ask("status"))


class WithSeam(unittest.TestCase):
    kind = "host"
    capacity = "8MiB"
    locked = "64MiB"
    daemon: SmallDaemon

    @classmethod
    def setUpClass(cls) -> None:
        if cls.kind != "host":
            load_fake(cls.kind)
        cls.daemon = SmallDaemon(cls.capacity, cls.locked, cls.kind)
        cls.addClassCleanup(cls.daemon.__exit__)

    def setUp(self) -> None:
        self.enterContext(unittest.mock.patch("penstock_comfyui.link.RETRY_SECONDS", 0.1))
        if self.kind != "host":
            self.enterContext(unittest.mock.patch.dict(os.environ, {devices.ON_GPUS: "1"}))
        if self.daemon.process.poll() is not None:
            self.daemon.restart()
        self.connect_to(self.daemon.socket)
        # Test cases outlive their tests, and what they hold is counted.
        before = set(vars(self))
        self.addCleanup(self.check_that_nothing_is_left, before)

    def connect_to(self, socket: Path | str) -> None:
        link.reset(str(socket))
        devices.forget()
        if self.kind != "host" and "nonexistent" not in str(socket):
            self.assertIsNotNone(devices.on_gpu(0))

    def check_that_nothing_is_left(self, before: set[str]) -> None:
        for name in set(vars(self)) - before:
            delattr(self, name)
        read_ahead.let_go()
        link.reset("/nonexistent")
        devices.forget()
        if self.daemon.process.poll() is None:
            def gone() -> bool:
                gc.collect()
                return all(one["pid"] != os.getpid() for one in self.daemon.ask("status").get("clients", ()))

            self.assertTrue(daemon.wait_until(gone), "a connection outlives its test")

    def restart(self) -> None:
        self.daemon.restart()

    def stop_service(self) -> Callable[[], None]:
        """All of its threads stand when this returns, until the answer is called or the test ends."""
        process = self.daemon.process
        tasks = Path(f"/proc/{process.pid}/task")

        def resume() -> None:
            process.send_signal(signal.SIGCONT)

        process.send_signal(signal.SIGSTOP)
        self.addCleanup(resume)
        self.assertTrue(daemon.wait_until(lambda: all(") T " in (task / "stat").read_text() for task in tasks.iterdir())))
        return resume

    def processes(self) -> Any:
        """How to start some: a driver is of no use to a forked child."""
        return multiprocessing.get_context("fork" if self.kind == "host" else "spawn")

    def worker(self, does: Callable[..., None], *arguments: Any) -> Any:
        """A process beside this one, started; it ends with the test, however that ends."""
        started = self.processes().Process(target=does, args=arguments)
        started.start()
        self.addCleanup(started.join)
        self.addCleanup(started.kill)
        return started

    def client(self) -> dict[str, object]:
        """What the service says of this process."""
        return next(one for one in self.daemon.ask("status")["clients"] if one["pid"] == os.getpid())
