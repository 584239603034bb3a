# SPDX-License-Identifier: Apache-2.0
"""What this ComfyUI holds where, told to the service at the ends of nodes and prompts.

Read off counters where there are any. Only cached results and what nodes keep are looked for, at the end of a prompt. Nothing
here may raise, or keep a tensor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock.holdings import Holding
from penstock_comfyui import devices, host_memory, pager, safe_points, theirs
from penstock_comfyui.graph_pools import Pools, graph_pools
from penstock_comfyui.held_tensors import Counted
from penstock_comfyui.link import say_once

NODE_SECONDS = 1.0  # Between two reports at ends of nodes.
REPORT_SECONDS = 1.0  # To wait for an answer.
MARK_OF_STAND_INS = "_penstock_stand_in"
UNPAGED_BYTES = "model_loaded_weight_memory"  # Of a model with pages: weights that ComfyUI loads without.
# Of a model: weak references to pins of the service's pages that were its parameters at first, and their bytes.
SHARED = "_penstock_shared"


class Holdings:
    """Runs on ComfyUI's prompt thread."""

    def __init__(self, management: Any) -> None:
        self._management = management
        self._next = 0.0
        self._of_node: _Found | None = None  # Of the one that ends now.
        self._kept = _Found()  # Results and state, as last looked for.

    def due(self) -> bool:
        """The last report is so old that the end of a node is worth one."""
        return time.monotonic() >= self._next

    def before_drop(self) -> None:
        """A node ends, and its cast buffers and graphs go right after this."""
        self._of_node = self._safely(self._computed_now) if self.due() else None

    def end_node(self) -> None:
        computed, self._of_node = self._of_node, None
        if computed is not None:
            self._tell(computed)

    def end_prompt(self, executor: Any) -> None:
        self._kept = self._safely(lambda: self._kept_by(executor))
        self._tell(self._safely(self._computed_now))

    def dropped(self, executor: Any = None) -> None:
        """Between prompts: models, or with an executor what it had cached."""
        if executor is not None:
            self._kept = self._safely(lambda: self._kept_by(executor))
        self._tell(self._safely(self._computed_now))

    def _kept_by(self, executor: Any) -> _Found:
        return _kept(executor, [patcher.model for patcher, _ in self._models()])

    def _tell(self, computed: _Found) -> None:
        self._next = time.monotonic() + NODE_SECONDS
        found = self._safely(self._weights)
        found.take(computed)
        found.take(self._kept)
        told = [Holding(kind, place, nbytes, device) for (kind, place, device), nbytes in found.bytes.items()]
        safe_points.with_service(lambda service: service.report(told, REPORT_SECONDS))

    @staticmethod
    def _safely(measure: Callable[[], _Found]) -> _Found:
        try:
            return measure()
        except Exception as error:  # noqa: BLE001 - Nobody's prompt may fail for a figure.
            say_once(f"what is held is not told in full: {type(error).__name__}: {error}")
            return _Found()

    # ---- what there is ----

    def _weights(self) -> _Found:
        """Pages, models as ComfyUI's ledger has them, and their pinned copies."""
        found = _Found()
        found.put("weights", "anonymous", 0)
        disk = 0
        for patcher, device in self._models():
            nbytes, loaded = int(patcher.model_size()), int(patcher.loaded_size())
            if patcher.is_dynamic():
                absent = max(0, nbytes - _present(patcher, loaded))
                disk += max(0, absent - _pinned_apart(patcher))
                unpaged = int(getattr(patcher.model, UNPAGED_BYTES, 0))
                found.put_on("weights", device.type, device.index, unpaged, of_torch=True)
                if not devices.ours(device.index):
                    found.put_on("weights", device.type, device.index, max(0, loaded - unpaged))
                continue
            shared = min(nbytes, shared_bytes(patcher.model))
            on_device = loaded if device.type != "cpu" else 0
            found.put("weights", "anonymous", max(0, nbytes - on_device - shared))
            found.put("weights", "device", shared, devices.id_of(None))
            found.put_on("weights", device.type, device.index, on_device, of_torch=True)
        for index in pager.indices():
            found.put("weights", "device", pager.present_bytes(index), devices.id_of(index))
        found.put("weights", "locked_host", self._locked_bytes())
        found.put("weights", "disk", disk)
        return found

    def _models(self) -> Iterator[tuple[Any, Any]]:
        for loaded in list(self._management.current_loaded_models):
            patcher = loaded.model
            if patcher is not None and not hasattr(patcher, MARK_OF_STAND_INS):
                yield patcher, loaded.device

    def _locked_bytes(self) -> int:
        """Of our buffers, or what ComfyUI registered of others."""
        if theirs.works() and not devices.ours(0):
            return int(getattr(self._management, "TOTAL_PINNED_MEMORY", 0))
        return host_memory.locked_bytes()

    def _computed_now(self) -> _Found:
        """Carry, work, and what torch keeps: all that comes and goes with nodes."""
        found = self._carry_now()
        torch = _torch_with_gpus()
        if torch is None:
            return found
        known = self._weights()
        known.take(found)
        known.take(self._kept)
        _add_torch(found, known, torch)
        return found

    def _carry_now(self) -> _Found:
        found = _Found()
        found.put("carry", "anonymous", 0)
        for buffer in list(getattr(self._management, "STREAM_CAST_BUFFERS", {}).values()):
            found.put_on("carry", buffer.device.type, buffer.device.index, int(buffer.nbytes), of_torch=True)
        for buffer in list(getattr(self._management, "STREAM_AIMDO_CAST_BUFFERS", {}).values()):
            index = getattr(buffer, "device", None)
            found.put_on("carry", "cpu" if devices.on_host(index) else "cuda", index, int(buffer.size()))
        return found


def shared_bytes(model: Any) -> int:
    """Of its parameters that are pages of the service: those that ComfyUI has not replaced, on a GPU or at all."""
    return sum(nbytes for pin, nbytes in getattr(model, SHARED, ()) if pin() is not None)


def _present(patcher: Any, loaded: int) -> int:
    """Of a model with pages: what is on the device, also in pages that others have, too. `loaded` are those that would go with it."""
    pages = getattr(getattr(patcher, "_vbar_get", lambda: None)(), "_pages", None)
    if not isinstance(pages, pager.VbarPages):
        return loaded
    unpaged = int(getattr(patcher.model, UNPAGED_BYTES, 0))
    return unpaged + sum(table.mapped_bytes for table in pages.tables())


def _pinned_apart(patcher: Any) -> int:
    """Its pinned copies of weights that found no page. ComfyUI keeps those of weights with pages in another buffer."""
    try:
        return int(patcher.model.dynamic_pins[patcher.load_device]["weights"][0].size)
    except (AttributeError, IndexError, KeyError, TypeError):
        return 0


class _Found:
    """Bytes by kind, place and device."""

    def __init__(self) -> None:
        self.bytes: dict[tuple[str, str, str | None], int] = {}
        self.of_torch: dict[str, int] = {}  # Of those on a device: what torch allocated.

    def put(self, kind: str, place: str, nbytes: int, device: str | None = None) -> None:
        """On a device that the service doesn't have: not told."""
        if place != "device" or device is not None:
            self.bytes[kind, place, device] = self.bytes.get((kind, place, device), 0) + nbytes

    def put_on(self, kind: str, of_type: str, index: int | None, nbytes: int, of_torch: bool = False) -> None:
        """On one of torch's devices."""
        if of_type == "cpu":
            self.put(kind, "anonymous", nbytes)
            return
        device = devices.id_of(index)
        self.put(kind, "device", nbytes, device)
        if of_torch and device is not None:
            self.of_torch[device] = self.of_torch.get(device, 0) + nbytes

    def take(self, other: _Found) -> None:
        for (kind, place, device), nbytes in other.bytes.items():
            self.put(kind, place, nbytes, device)
        for where, nbytes in other.of_torch.items():
            self.of_torch[where] = self.of_torch.get(where, 0) + nbytes


def _kept(executor: Any, models: list[Any]) -> _Found:
    """Results first: what a node both returned and kept is a result. `models` are weights."""
    torch: Any = sys.modules.get("torch")
    found = _Found()
    if torch is None:
        return found
    counted = Counted(torch.Tensor, torch.nn.Module)
    for model in models:
        counted.leave_out(model)
    nodes = [vars(node) for node in _values(executor.caches.objects) if hasattr(node, "__dict__")]
    for kind, roots in (("results", _values(executor.caches.outputs)), ("state", nodes)):
        found.put(kind, "anonymous", 0)
        for (of_type, index), nbytes in counted.count(roots).items():
            found.put_on(kind, of_type, index, nbytes, of_torch=True)
    if not counted.complete:
        say_once("what is cached is more than is looked at for the report: its sizes are too low")
    return found


def _values(cache: Any) -> list[Any]:
    """Of a cache and those inside it."""
    found = list(getattr(cache, "cache", {}).values())
    for inner in list(getattr(cache, "subcaches", {}).values()):
        found += _values(inner)
    return found


def _torch_with_gpus() -> Any:
    """None where that would start a driver."""
    torch: Any = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else None


def _add_torch(found: _Found, known: _Found, torch: Any) -> None:
    """What torch has on GPUs, less what is known to be something else; and what it keeps for later. Of host memory torch
    keeps no account."""
    try:
        pools = graph_pools(torch)
    except Exception as error:  # noqa: BLE001 - Not all of torch's allocators can tell.
        say_once(f"pools of graphs are not told: {type(error).__name__}: {error}")
        pools = {}
    for index in range(torch.cuda.device_count()):
        device = devices.id_of(index)
        if device is None:
            continue
        allocated, reserved = int(torch.cuda.memory_allocated(index)), int(torch.cuda.memory_reserved(index))
        pool = pools.get(index, Pools())
        told = known.of_torch.get(device, 0) + pool.allocated
        found.put("carry", "device", pool.reserved, device)
        found.put("work", "device", max(0, allocated - told), device)
        found.put("other", "device", max(0, reserved - allocated - (pool.reserved - pool.allocated)), device)
