# SPDX-License-Identifier: Apache-2.0
"""Models take tensors that show a file's pages for their parameters, where ComfyUI would make equal copies of them.

Without DynamicVRAM it copies what it loads into a model. Where it assigns with DynamicVRAM, and nowhere else, a module whose
tensors are what its copies would be gets the tensors themselves: of its dtype, place and layout, and nobody else's.
"""

from __future__ import annotations

import collections
import functools
import importlib
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from penstock_comfyui.holdings import SHARED
from penstock_comfyui.link import say_once

_MARK = "_penstock"
_ASSIGN = "assign_to_params_buffers"  # What torch's modules look for in their part of the metadata.
# Where torch itself puts tensors, and the service them: a part of one may lie elsewhere.
_ALIGNMENT = 64
# Where ComfyUI assigns: module, class, function, and the object's attribute that is the model; "": itself.
_LOADERS = (
    ("comfy.model_base", "BaseModel", "load_model_weights", ""),
    ("comfy.sd", "CLIP", "load_sd", "cond_stage_model"),
    ("comfy.sd", "VAE", "__init__", "first_stage_model"),
    ("comfy.clip_vision", "ClipVisionModel", "load_sd", "model"),
    ("comfy.bg_removal_model", "BackgroundRemovalModel", "load_sd", "model"),
)
_here = threading.local()  # `taking`: what a load of this thread has taken so far.

Loader = tuple[Any, str, Callable[..., Any]]


class _Shown:
    """Kept with the memory of a tensor that shows pages of a file."""

    def __init__(self, pin: weakref.ref[Any]) -> None:
        self.pin = pin
        self.taken: list[tuple[int, int]] = []  # Parts that are parameters.


def mark(tensor: Any, pin: Any) -> None:
    """It shows pages of a file, as long as the pin lives, and nobody has it for a parameter."""
    setattr(tensor.untyped_storage(), _MARK, _Shown(weakref.ref(pin)))


def loaders() -> list[Loader]:
    """Those of this ComfyUI, and what they become. AttributeError: it lacks the diffusion model's."""
    importlib.import_module(_LOADERS[0][0]).BaseModel.load_model_weights  # noqa: B018
    found = []
    for module, owner, name, model in _LOADERS:
        of = getattr(sys.modules.get(module), owner, None)
        before = getattr(of, name, None)
        if before is not None and not hasattr(before, _MARK):
            found.append((of, name, _around(before, model)))
    return found


def install(found: list[Loader]) -> None:
    for of, name, load in found:
        setattr(of, name, load)
    if not hasattr(torch.nn.Module.load_state_dict, _MARK):
        torch.nn.Module.load_state_dict = _taking(torch.nn.Module.load_state_dict)


def _around(before: Callable[..., Any], attribute: str) -> Callable[..., Any]:
    @functools.wraps(before)
    def load(self: Any, *arguments: Any, **options: Any) -> Any:
        outer, _here.taking = getattr(_here, "taking", None), _Taking()
        try:
            return before(self, *arguments, **options)
        finally:
            taken, _here.taking = _here.taking.taken, outer
            model = getattr(self, attribute, None) if attribute else self
            if model is not None and taken:
                setattr(model, SHARED, [*getattr(model, SHARED, ()), *taken])

    setattr(load, _MARK, True)
    return load


def _taking(before: Callable[..., Any]) -> Callable[..., Any]:
    """Beyond those loads, or where all of them are to be assigned anyway, it is as it was."""

    @functools.wraps(before)
    def load_state_dict(self: Any, state_dict: Any, *arguments: Any, **options: Any) -> Any:
        taking = getattr(_here, "taking", None)
        if taking is None or options.get("assign") or len(arguments) > 1:
            return before(self, state_dict, *arguments, **options)
        with taking.in_modules_of(self):
            return before(self, state_dict, *arguments, **options)

    setattr(load_state_dict, _MARK, True)
    return load_state_dict


class _Taking:
    """Of one load."""

    def __init__(self) -> None:
        self.taken: list[tuple[weakref.ref[Any], int]] = []
        self._tied: set[int] = set()
        self._told: list[dict[str, Any]] = []

    @contextmanager
    def in_modules_of(self, model: Any) -> Iterator[None]:
        modules = list(model.modules())
        uses = collections.Counter(id(one) for module in modules for one in _own(module).values() if one is not None)
        # One that is two modules' would be one's alone. A module may load another one within its own load.
        outer, self._tied = self._tied, self._tied | {one for one, times in uses.items() if times > 1}
        told, self._told = self._told, []
        with ExitStack() as hooks:
            for module in modules:
                hooks.callback(module.register_load_state_dict_pre_hook(self._look).remove)
            try:
                yield
            finally:
                for metadata in self._told:
                    metadata.pop(_ASSIGN, None)  # It may be the caller's.
                self._tied, self._told = outer, told

    def _look(self, module: Any, state_dict: Any, prefix: str, metadata: dict[str, Any], *_: Any) -> None:
        """Right before the module copies its own."""
        try:
            pairs = [(one, state_dict[prefix + name]) for name, one in _own(module).items()
                     if one is not None and prefix + name in state_dict]
            if not pairs or not all(self._is_equal(one, given) for one, given in pairs) or _overlap([given for _, given in pairs]):
                return
        except Exception as error:  # noqa: BLE001 - Of no plain tensors: copied, as ever.
            say_once(f"weights are copied out of a file: {type(error).__name__}: {error}")
            return
        metadata[_ASSIGN] = True
        self._told.append(metadata)
        for _, given in pairs:
            shown = getattr(given.untyped_storage(), _MARK)
            shown.taken.append(_range(given))
            self.taken.append((shown.pin, given.nbytes))

    def _is_equal(self, one: Any, given: Any) -> bool:
        plain = type(one) in (torch.Tensor, torch.nn.Parameter) and type(given) in (torch.Tensor, torch.nn.Parameter)
        if not plain or id(one) in self._tied or not _kind(one) == _kind(given):
            return False
        shown = getattr(given.untyped_storage(), _MARK, None)
        if shown is None or not one.is_contiguous() or given.data_ptr() % _ALIGNMENT:
            return False
        first, end = _range(given)
        return all(end <= start or stop <= first for start, stop in shown.taken)


def _own(module: Any) -> dict[str, Any]:
    return {**module._parameters, **module._buffers}


def _overlap(tensors: list[Any]) -> bool:
    ranges = sorted(_range(one) for one in tensors if one.nbytes)
    return any(first < end for (_, end), (first, _) in itertools.pairwise(ranges))


def _kind(tensor: Any) -> tuple[Any, ...]:
    return tensor.dtype, tensor.device, tensor.shape, tensor.stride()


def _range(tensor: Any) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
