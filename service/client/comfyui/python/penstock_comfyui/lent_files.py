# SPDX-License-Identifier: Apache-2.0
"""Which files' pages this process shows as tensors, without DynamicVRAM, and how what nobody looks at leaves the device.

One content is one memory of a connection, and what is written to it is seen by all of its views. So one load of a file at a
time has this process's own connection; others have one each, with the same frames and their own copies of what they write.
"""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any

import penstock
from penstock_comfyui import safe_points, service_cache
from penstock_comfyui.fork_lock import ForkLock
from penstock_comfyui.link import link

_files: list[LentFile] = []
_lock = ForkLock()


class LentFile:
    """A load of a file, which is lent as long as a tensor of it lives."""

    def __init__(self, ckpt: Any) -> None:
        """OSError: there is no such file."""
        found = os.stat(ckpt)
        self._file = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        self._id = ""
        self._pins: list[weakref.ref[Any]] = []
        self._loading = True
        with _lock:
            same = [one for one in _files if one._file == self._file]
            self.alone = not any(one._is_looked_at() for one in same)
            # What is dead is this one's to give back.
            _files[:] = [one for one in _files if one not in same or one._is_looked_at()] + [self]

    def loaded(self, checkpoint: penstock.Checkpoint, pins: list[Any]) -> None:
        """A pin lives as long as a view of it."""
        self._id, self._pins = checkpoint.id, [weakref.ref(pin) for pin in pins]

    def end(self) -> None:
        """Of the load. Where nothing has come of it, it never was."""
        self._loading = False
        if not self._pins:
            self._leave()

    def give_back(self, service: penstock.Service, clients: dict[str, int]) -> None:
        """`clients`: how many have it open, by its id. What they have open the service leaves to them, whole, unless
        an administrator asks, as root's ComfyUI is one."""
        pin = next((found for one in self._pins if (found := one()) is not None), None)
        if clients.get(self._id, 0) > (0 if pin is None else 1) or (pin is not None and not self.alone):
            return
        # What is still looked at is pinned, and stays.
        which = {"id": self._id} if pin is None else {"checkpoint": pin.table.file.describe().handle}
        if service_cache.evict(service, which) is not None and pin is None:
            self._leave()

    def _leave(self) -> None:
        with _lock:
            if self in _files:
                _files.remove(self)

    def _is_looked_at(self) -> bool:
        return self._loading or any(pin() is not None for pin in self._pins)


def give_back() -> None:
    """What this process brought to the device and doesn't look at any more, unless others have it. Between prompts."""
    with _lock:
        found = [one for one in _files if not one._loading]
    if found:
        gc.collect()  # Models refer to themselves.
        safe_points.with_service(lambda service: _give_back(service, found))


def _give_back(service: penstock.Service, files: list[LentFile]) -> None:
    clients = {str(one["id"]): int(one["clients"]) for one in link.answer(service.status)["checkpoints"]}
    for one in files:
        one.give_back(service, clients)
