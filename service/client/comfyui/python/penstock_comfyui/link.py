# SPDX-License-Identifier: Apache-2.0
"""The connection of this process to penstockd: one, made when it is first needed, and asked for again after a while."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import penstock
from penstock import errors

log = logging.getLogger("penstock")


class SilentError(errors.DeadlineError):
    """The service says nothing. Any other DeadlineError may be its own answer."""


# What says that the service is gone, and not that it refuses.
AWAY = (errors.UnreachableError, errors.DisconnectedError, errors.ClosingError, SilentError)
RETRY_SECONDS = 2.0
# After a call that found no end: waiting for the next one would cost more than streaming does.
SILENT_SECONDS = 60.0
QUESTION_SECONDS = 2.0  # For an answer that nobody has to work for.
LIBRARY_SECONDS = 1.0  # So much longer the library itself waits, where no thread of ours does: who is first decides alone.
OPEN_SECONDS = 30.0  # For a file that is slow, while the service answers other questions.
HEARD_SECONDS = 2.0  # An answer is a sign of life for so long.

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
        self._silent = False  # Away, and still connected as far as anybody knows.
        self._heard = 0.0
        os.register_at_fork(after_in_child=self._start_over)

    def service(self) -> penstock.Service | None:
        """None while the service is away. Asked for again at most every RETRY_SECONDS. One that is there has shown a sign of life
        just now; of one that stops after that, each call of the library finds out by itself."""
        with self._lock:
            if not self._may_try():
                return None
            found = self._service if self._process == os.getpid() else None
            if found is None:
                return self._connect()
        return found if self._lives(found) else None

    def answer(self, ask: Callable[[], _Value], seconds: float | None = None) -> _Value:
        """What the service answers, or what `ask` raises. SilentError: nothing in time, and it counts as away. A thread of the
        question's own waits: `ask` may use no GPU, and what comes too late is dropped."""
        answers: queue.SimpleQueue[tuple[_Value | None, BaseException | None]] = queue.SimpleQueue()
        try:
            threading.Thread(target=_run, args=(ask, answers), name="penstock-question", daemon=True).start()
        except RuntimeError as error:  # The process may have no more, or ends.
            raise errors.ExhaustedError(f"no thread for a question: {error}") from error
        limit = QUESTION_SECONDS if seconds is None else seconds
        try:
            value, problem = answers.get(timeout=limit)
        except queue.Empty:
            silent = SilentError(f"the service did not answer within {limit:.1f} s", "is it stopped?")
            self.away(silent)
            raise silent from None
        if not isinstance(problem, AWAY):
            self._heard = time.monotonic()
            self.back()
        if problem is not None:
            raise problem
        return value  # type: ignore[return-value]

    def check(self, service: penstock.Service) -> None:
        """Before a call that has no limit of its own and has to be made by this thread. SilentError: don't make it."""
        if time.monotonic() >= self._heard + HEARD_SECONDS:
            self.answer(service.status)

    def patiently(self, service: penstock.Service, call: Callable[[], _Value]) -> _Value:
        """For what a file may have to be read for first. The library gives up early: made again while the service answers what
        nobody has to work for. SilentError: it doesn't."""
        end = time.monotonic() + OPEN_SECONDS
        while True:
            try:
                return call()
            except errors.DeadlineError:
                self.answer(service.status)
                if time.monotonic() >= end:
                    raise

    def is_there(self) -> bool:
        """After a call that had no answer in its time: whether the service answers what nobody has to work for. If not, it counts
        as away."""
        service = self.present()
        if service is None:
            return False
        try:
            self.answer(service.status)
        except AWAY as error:
            self.away(error)
            return False
        except penstock.PenstockError as error:
            return not isinstance(error, SilentError)
        return True

    def is_silent(self) -> bool:
        """There is a service, but a call that waits for it would wait for long. Asked again once SILENT_SECONDS are over."""
        if self._away and self._silent:
            return self.service() is None
        service = self.present()
        if service is None:
            return False
        try:
            self.check(service)
        except penstock.PenstockError as error:
            return isinstance(error, SilentError)
        return False

    def present(self) -> penstock.Service | None:
        """The connection that is there, if any; none is made."""
        with self._lock:
            there = self._service is not None and self._process == os.getpid() and not self._away
            return self._service if there else None

    def beside(self) -> penstock.Service:
        """A connection of the caller's own. Raises what the library does."""
        return self._connected()

    def reset(self, socket: str | None) -> None:
        """Another service from now on."""
        with self._lock:
            self._socket, self._service, self._next_try, self._away, self._heard = socket, None, 0.0, False, 0.0

    def _start_over(self) -> None:
        """In a child made by fork: the lock may be held by a thread that isn't here."""
        self._lock = threading.Lock()

    def away(self, error: Exception) -> None:
        """A call found out that the service is gone, or that it says nothing."""
        with self._lock:
            self._note_away(error)

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

    def _connect(self) -> penstock.Service | None:
        """REQUIRES: the lock is held."""
        started = time.monotonic()
        try:
            self._service = self._connected()
            self._process = os.getpid()
        except penstock.PenstockError as error:
            # A service that isn't there says so at once.
            silent = time.monotonic() >= started + QUESTION_SECONDS
            self._note_away(SilentError(error.message, error.hint) if silent else error)
            return None
        self._heard = time.monotonic()
        self._note_back()
        return self._service

    def _connected(self) -> penstock.Service:
        return penstock.connect(self._socket, name="ComfyUI", answer_timeout=QUESTION_SECONDS + LIBRARY_SECONDS)

    def _lives(self, service: penstock.Service) -> bool:
        try:
            self.check(service)
        except AWAY as error:
            self.away(error)
            return False
        except penstock.PenstockError:
            pass  # An answer.
        return True

    def _note_away(self, error: Exception) -> None:
        self._silent = isinstance(error, errors.DeadlineError)
        self._next_try = time.monotonic() + (SILENT_SECONDS if self._silent else RETRY_SECONDS)
        if not self._away:
            self._away = True
            say_once(f"the service is away ({error}); ComfyUI goes on without it until it is back")

    def _note_back(self) -> None:
        if self._away:
            say_once("the service is back", logging.INFO)
        self._away = False
        self._next_try = 0.0


def _run(ask: Callable[[], _Value], answers: queue.SimpleQueue[tuple[_Value | None, BaseException | None]]) -> None:
    try:
        answers.put((ask(), None))
    except BaseException as problem:  # noqa: BLE001 - It is raised where the question was asked.
        answers.put((None, problem))


link = Link()
