# SPDX-License-Identifier: Apache-2.0
"""Telling about memory pressure, on a thread of its own."""

from __future__ import annotations

import ctypes
import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock._library import DONE, Event, library, sized
from penstock._memory import Connection

_PRESSURE = 1
_LEVELS = ("calm", "some", "full")


@dataclass(frozen=True)
class Pressure:
    """What the service says of memory: `level` calm, some or full; what it would like back, in bytes."""

    level: str
    wanted_bytes: int


def pressure_of(event: Event) -> Pressure | None:
    """None: it is another event."""
    return Pressure(_LEVELS[min(event.level, 2)], event.wanted_bytes) if event.kind == _PRESSURE else None


class PressureThread:
    """Reads the events of a connection until stop()."""

    def __init__(self, connection: Connection) -> None:
        self.callback: Callable[[Pressure], object] | None = None
        self._connection = connection
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._run, name="penstock-pressure", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits for a callback that runs, unless it is the one that calls."""
        os.close(self._end)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        events = library.pst_event_fd(self._connection.handle)
        wait = select.poll()
        wait.register(events, select.POLLIN)
        wait.register(self._ended, select.POLLIN)
        while all(fd != self._ended for fd, _ in wait.poll()):
            event = sized(Event)
            while library.pst_next_event(self._connection.handle, ctypes.byref(event)) == DONE:
                callback = self.callback
                # An exception has nowhere to go but to threading.excepthook, and ends the thread.
                pressure = pressure_of(event)
                if pressure is not None and callback is not None:
                    callback(pressure)
        os.close(self._ended)
