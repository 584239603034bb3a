# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.malloc_graph: patterns of device allocations, recorded and replayed. Theirs, as it belongs to a stream."""

from __future__ import annotations

from typing import Any

from penstock_comfyui import theirs


class MallocGraph:
    """Of host memory: nothing is recorded, everything runs as without."""

    def __init__(self, handle: Any, stream: Any) -> None:
        self._handle, self._stream = handle, stream

    def push(self, name: str | None = None) -> None:
        """Nothing to record."""

    def pop(self) -> None:
        """Nothing was recorded."""

    def abort(self) -> None:
        """Nothing was recorded."""

    def pause(self, sync: bool = False) -> None:
        """Nothing is recorded."""

    def resume(self, sync: bool = False) -> None:
        """Nothing is recorded."""

    def use_stream(self, stream: Any) -> None:
        self._stream = stream

    def iterate(self, name: str | None = None) -> None:
        """Nothing to replay."""

    @property
    def peak_used(self) -> int:
        return 0

    @property
    def virtual_bytes(self) -> int:
        return 0

    @property
    def physical_bytes(self) -> int:
        return 0

    @property
    def rogue_count(self) -> int:
        return 0


def record(stream: Any, assert_graph_breaks: bool = False) -> Any:
    if theirs.works():
        return theirs.call("malloc_graph", "record", stream, assert_graph_breaks)
    return MallocGraph(None, stream)
