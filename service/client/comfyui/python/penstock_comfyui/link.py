# SPDX-License-Identifier: Apache-2.0
"""The connection of this process to penstockd: one, made when it is first needed, and asked for again after a while."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TypeVar

import penstock
from penstock import errors

log = logging.getLogger("penstock")

# What says that the service is gone, and not that it refuses.
AWAY = (errors.UnreachableError, errors.DisconnectedError, errors.ClosingError)
RETRY_SECONDS = 2.0
# After a call that found no end: waiting for the next one would cost more than streaming does.
SILENT_SECONDS = 60.0

_said: set[str] = set()
_Value = TypeVar("_Value")


def say_once(text: str, level: int = logging.WARNING) -> None:
    """One line in ComfyUI's log; the same line never again."""
    if text not in _said:
        _said.add(text)
        log.log(level, "penstock: %s", text)


class Link:
    """Usable from several threads."""

    def __init__(self, socket: str | None = None) -> None:
        self._socket = socket
        self._lock = threading.Lock()
        self._service: penstock.Service | None = None
        self._process = 0
        self._next_try = 0.0
        self._away = False
        os.register_at_fork(after_in_child=self._start_over)

    def service(self) -> penstock.Service | None:
        """None while the service is away. Asked for again at most every RETRY_SECONDS."""
        with self._lock:
            if self._service is not None and self._process == os.getpid():
                return self._service if self._may_try() else None
            if not self._may_try():
                return None
            try:
                self._service = penstock.connect(self._socket, name="ComfyUI")
                self._process = os.getpid()
            except penstock.PenstockError as error:
                self._note_away(error)
                return None
            self._note_back()
            return self._service

    def present(self) -> penstock.Service | None:
        """The connection that is there, if any; none is made."""
        with self._lock:
            there = self._service is not None and self._process == os.getpid() and not self._away
            return self._service if there else None

    def reset(self, socket: str | None) -> None:
        """Another service from now on."""
        with self._lock:
            self._socket, self._service, self._next_try, self._away = socket, None, 0.0, False

    def _start_over(self) -> None:
        """In a child made by fork: the lock may be held by a thread that isn't here."""
        self._lock = threading.Lock()

    def away(self, error: Exception) -> None:
        """A call found out that the service is gone, or that it says nothing."""
        with self._lock:
            self._note_away(error)
            if isinstance(error, errors.DeadlineError):
                self._next_try = time.monotonic() + SILENT_SECONDS

    def back(self) -> None:
        """A call found out that it is there."""
        if self._away:
            with self._lock:
                self._note_back()

    @property
    def may_ask(self) -> bool:
        """False: it was away a moment ago."""
        return not self._away or self._may_try()

    def _may_try(self) -> bool:
        return time.monotonic() >= self._next_try

    def _note_away(self, error: Exception) -> None:
        self._next_try = time.monotonic() + RETRY_SECONDS
        if not self._away:
            self._away = True
            say_once(f"the service is away ({error}); ComfyUI goes on without it until it is back")

    def _note_back(self) -> None:
        if self._away:
            say_once("the service is back", logging.INFO)
        self._away = False
        self._next_try = 0.0


link = Link()
