# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.model_mmap: a file's bytes in memory, and its descriptor."""

from __future__ import annotations

import os
import weakref
from typing import Any

from penstock_comfyui import theirs
from penstock_comfyui.address_space import FileMapping
from penstock_comfyui.devices import ours

lib = theirs.module("control")


class ModelMMAP:
    def __new__(cls, filepath: Any) -> Any:
        other = theirs.module("model_mmap") if theirs.works() and not ours(0) else None
        return super().__new__(cls) if other is None else other.ModelMMAP(filepath)

    def __init__(self, filepath: Any) -> None:
        """RuntimeError: there is nothing to map, not one byte."""
        path = os.fspath(filepath)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._descriptor).atexit = False
            self.state = FileMapping(self._descriptor, os.fstat(self._descriptor).st_size)
        except (OSError, ValueError) as error:
            raise RuntimeError(f"penstock: {filepath} can't be mapped: {error}") from error
        if self.state.nbytes == 0:
            raise RuntimeError(f"penstock: {filepath} is empty")

    def get(self) -> int:
        """The address of its first byte."""
        return self.state.address

    def get_file_handle(self) -> int:
        return self._descriptor

    def bounce(self) -> bool:
        """What this process touched of it is dropped; it is read again when it is touched again."""
        self.state.drop()
        return True
