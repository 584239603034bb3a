# SPDX-License-Identifier: Apache-2.0
"""Counts the tensors in containers and modules. Looks only so deep, and at so many objects: what nodes keep is theirs to shape."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

DEPTH_MAX = 5
LOOKS_MAX = 20_000
# Bytes of these storages are counted elsewhere: pages of the service, and of files.
_ELSEWHERE = ("_penstock", "_comfy_tensor_mmap_refs")
_PLAIN = (str, bytes, int, float, bool, type(None))


class Counted:
    """Bytes by device, each storage once, however many ask. Keeps no object."""

    def __init__(self, tensor: type, module: type) -> None:
        """torch's, which isn't imported here."""
        self._tensor = tensor
        self._module: Any = module
        self._elsewhere: set[int] = set()
        self._storages: set[tuple[str, int]] = set()
        self._looks = LOOKS_MAX

    @property
    def complete(self) -> bool:
        """False: there was more than it looks at."""
        return self._looks > 0

    def leave_out(self, model: Any) -> None:
        """A module that is counted as a model, and those inside it."""
        if isinstance(model, self._module):
            self._elsewhere.update(id(one) for one in itertools.islice(model.modules(), LOOKS_MAX))

    def count(self, roots: Iterable[Any]) -> dict[tuple[str, int | None], int]:
        """By type and index of the device."""
        found: dict[tuple[str, int | None], int] = {}
        seen = set(self._elsewhere)
        waiting = [(root, 0) for root in roots]
        while waiting and self._looks > 0:
            self._looks -= 1
            one, depth = waiting.pop()
            if isinstance(one, self._tensor):
                self._add(one, found)
            elif not isinstance(one, _PLAIN) and depth < DEPTH_MAX and id(one) not in seen:
                seen.add(id(one))
                waiting += [(inner, depth + 1) for inner in self._inside(one)]
        return found

    def _add(self, tensor: Any, found: dict[tuple[str, int | None], int]) -> None:
        try:
            storage = tensor.untyped_storage()
            place, nbytes, device = storage.data_ptr(), storage.nbytes(), tensor.device
        except Exception:  # noqa: BLE001 - Some kinds of tensors have no storage.
            return
        if place == 0 or (str(device), place) in self._storages or any(hasattr(storage, name) for name in _ELSEWHERE):
            return
        self._storages.add((str(device), place))
        key = (device.type, device.index)
        found[key] = found.get(key, 0) + nbytes

    def _inside(self, container: Any) -> list[Any]:
        """Copies: another thread may change it meanwhile."""
        try:
            if isinstance(container, Mapping):
                return list(container.values())
            if isinstance(container, (list, tuple, set, frozenset)):
                return list(container)
            if isinstance(container, self._module):
                return list(itertools.islice(itertools.chain(container.parameters(), container.buffers()), LOOKS_MAX))
        except RuntimeError:  # It was changed in the middle of the copy.
            pass
        return []
