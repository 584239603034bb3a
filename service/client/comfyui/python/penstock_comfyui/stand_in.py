# SPDX-License-Identifier: Apache-2.0
"""What other processes hold, in ComfyUI's ledger: an entry of `current_loaded_models` that `free_memory` can shrink.

Except on devices where the service pages weights for this ComfyUI: its faults make room there anyway.
"""

from __future__ import annotations

import weakref
from typing import Any

from penstock_comfyui import devices
from penstock_comfyui.holdings import MARK_OF_STAND_INS
from penstock_comfyui.link import say_once
from penstock_comfyui.others import OnDevice

# ComfyUI says 1e30 bytes and more to unload all of its own; that is no need for others' memory.
EVERYTHING = 1e29


class _Content:
    """Stands where the torch module would be."""


class StandIn:
    """What ComfyUI calls on a model's patcher, for memory that is nobody's model here. Never raises."""

    def __init__(self, others: OnDevice, load_device: Any, offload_device: Any) -> None:
        self.load_device, self.offload_device = load_device, offload_device
        self.parent = None
        self.model = _Content()
        self.clone_base_uuid = object()
        self.others = others
        setattr(self, MARK_OF_STAND_INS, True)

    def model_size(self) -> int:
        return self.others.bytes()

    def loaded_size(self) -> int:
        return self.others.bytes()

    def current_loaded_device(self) -> Any:
        return self.load_device

    def model_dtype(self) -> None:
        return None

    def model_patches_to(self, device: Any) -> None:
        """There are none."""

    def model_patches_models(self) -> list[Any]:
        return []

    def get_nested_additional_models(self) -> list[Any]:
        return []

    def partially_load(self, device_to: Any, extra_memory: float = 0, force_patch_weights: bool = False) -> int:
        """Others load theirs themselves."""
        return 0

    def partially_unload(self, device_to: Any, memory_to_free: float = 0, force_patch_weights: bool = False) -> int:
        return self.others.shrink(int(memory_to_free)) if memory_to_free < EVERYTHING else 0

    def detach(self, unpatch_all: bool = True) -> StandIn:
        """Nothing goes: ComfyUI also says this to models that it only replaces."""
        return self

    def lowvram_patch_counter(self) -> int:
        return 0

    def is_dynamic(self) -> bool:
        return False

    def is_clone(self, other: Any) -> bool:
        return other is self


class StandIns:
    """Those of one ComfyUI. Its prompt thread alone."""

    def __init__(self, management: Any) -> None:
        self._management = management
        self._entries: list[Any] = []  # The ledger holds models weakly.
        self._patchers: list[StandIn] = []

    def place(self) -> None:
        """Where ComfyUI is about to make room. REQUIRES: nobody goes through its ledger now."""
        try:
            self._find()
            ledger = self._management.current_loaded_models
            for entry, patcher in zip(self._entries, self._patchers):
                there = any(one is entry for one in ledger)
                wanted = patcher.others.bytes() > 0
                if wanted and not there:
                    ledger.append(entry)
                elif there and not wanted:
                    ledger[:] = [one for one in ledger if one is not entry]
        except Exception as error:  # noqa: BLE001
            say_once(f"others' memory is not in the ledger: {type(error).__name__}: {error}")

    def _find(self) -> None:
        known = [patcher.load_device for patcher in self._patchers]
        for device in self._management.get_all_torch_devices():
            paged = devices.dynamic() and devices.ours(device.index)
            if device.type == "cpu" or device in known or paged:
                continue
            name = devices.id_of(device.index)
            if name is not None:
                self.add(OnDevice(name, device.index), device)

    def make_up(self, memory_required: float, device: Any) -> None:
        """After ComfyUI made room. Where it is told to unload everything each time (--disable-smart-memory), it asks nobody for
        what it lacks: others are asked for that, once its own are gone."""
        try:
            if not getattr(self._management, "DISABLE_SMART_MEMORY", False) or device is None:
                return
            for patcher in self._patchers:
                lacking = memory_required - self._management.get_free_memory(device)
                if patcher.load_device == device and lacking > 0:
                    patcher.partially_unload(patcher.offload_device, lacking)
        except Exception as error:  # noqa: BLE001
            say_once(f"others' memory is not asked for: {type(error).__name__}: {error}")

    def add(self, others: OnDevice, device: Any) -> None:
        patcher = StandIn(others, device, self._management.unet_offload_device())
        self._patchers.append(patcher)
        self._entries.append(_entry(self._management, patcher))


def _entry(management: Any, patcher: StandIn) -> Any:
    class Others(management.LoadedModel):  # type: ignore[misc]
        """Never leaves the ledger by being unloaded: what it stands for comes back."""

        def model_unload(self, memory_to_free: float | None = None, unpatch_weights: bool = True) -> bool:
            if memory_to_free is not None and self.model is not None:
                self.model.partially_unload(self.model.offload_device, memory_to_free)
            return False

    entry = Others(patcher)
    entry.currently_used = False
    entry.real_model = weakref.ref(patcher.model)
    entry.model_finalizer = weakref.finalize(patcher.model, management.cleanup_models)
    entry.model_finalizer.atexit = False
    return entry
