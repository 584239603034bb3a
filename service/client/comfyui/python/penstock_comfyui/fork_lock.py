# SPDX-License-Identifier: Apache-2.0
"""A lock of a module, for `with`. A child made by fork finds it free: the thread that holds it may not be there."""

from __future__ import annotations

import os
import threading


class ForkLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._start_over)

    def _start_over(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
