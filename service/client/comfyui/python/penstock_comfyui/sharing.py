# SPDX-License-Identifier: Apache-2.0
"""Finds out which weights of a model ComfyUI would only copy out of files, and has the service share them.

Looked at when ComfyUI has laid a model out in its VBAR, once. The shared pages have a layout of their own, so that processes
share whatever they patch.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from penstock._dtypes import DTYPES
from penstock.memory import Piece
from penstock_comfyui.devices import on_host
from penstock_comfyui.link import say_once
from penstock_comfyui.pager import VbarPages
from penstock_comfyui.surface.model_vbar import ModelVBAR
from penstock_comfyui.tensors import over_pages

_MARK = "_penstock"
_ALIGNMENT = 1024  # Of the tensors within an allocation.
# What the service makes of one another as torch does.
_SOURCES = ("F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
_TARGETS = ("F32", "F16", "BF16")
_NAMES = {getattr(torch, one.torch): name for name, one in DTYPES.items() if one.torch and hasattr(torch, one.torch)}


def install() -> None:
    """REQUIRES: ComfyUI's modules are imported. Calling it again changes nothing."""
    if getattr(sys.modules.get("comfy_aimdo.control"), "__name__", "") != "penstock_comfyui.surface.control":
        return
    patchers: Any = importlib.import_module("comfy.model_patcher")
    before = patchers.ModelPatcherDynamic.load
    if hasattr(before, _MARK):
        return

    @functools.wraps(before)
    def load(self: Any, *arguments: Any, **options: Any) -> Any:
        answer = before(self, *arguments, **options)
        try:
            share(self.model, self._vbar_get())
        except Exception as error:  # noqa: BLE001 - Its weights are its own then, as ever.
            say_once(f"weights are not shared: {type(error).__name__}: {error}")
        return answer

    setattr(load, _MARK, True)
    patchers.ModelPatcherDynamic.load = load


def share(model: Any, vbar: Any) -> None:
    """Moves the model's allocations to shared pages, the first time; later ones lie where they lie."""
    if not isinstance(vbar, ModelVBAR):
        return
    pages = vbar._pages
    if not pages.asked_to_share:
        files = Files()
        found = [weights for module in model.modules() if (weights := _weights_of(module, vbar, files)) is not None]
        pages.share(files.descriptors, found)
    modules = [module for module in model.modules() if hasattr(module, "_v")]
    for module in modules:
        module._v = (vbar, pages.moved(module._v[1]), module._v[2])
    if not any(pages.is_shared(module._v[1]) for module in modules):
        return
    # ComfyUI computed a block's range from allocations that it took for neighbours. It does without where there is none.
    blocks = [module for module in model.modules() if getattr(module, "_v_block", None) is not None]
    for module in blocks:
        module._v_block = None  # Whatever goes wrong below.
    ranges = {id(unit[0]): _range_of(unit, modules, pages) for unit in _units(model)}
    for module in blocks:
        span = ranges.get(id(module))
        module._v_block = None if span is None else (vbar, *span)


def _units(model: Any) -> Iterator[Sequence[Any]]:
    """The blocks for which ComfyUI computes ranges: each of one module or of several, with all that is in them."""
    get = getattr(model, "get_dynamic_vram__units", None)
    for units in get() if get is not None else ():
        for unit in units:
            yield unit if isinstance(unit, (list, tuple)) else (unit,)


def _range_of(unit: Sequence[Any], modules: Sequence[Any], pages: VbarPages) -> tuple[int, int] | None:
    """Address and bytes; None: they lie in both tables, or others lie among them."""
    own = {id(module) for root in unit for module in root.modules()}
    spans = [(module._v[1], module._v[1] + module._v[2]) for module in modules if id(module) in own]
    if not spans or len({pages.is_shared(start) for start, _ in spans}) > 1:
        return None
    first, end = min(start for start, _ in spans), max(stop for _, stop in spans)
    apart = any(first <= module._v[1] < end for module in modules if id(module) not in own)
    return None if apart else (first, end - first)


@dataclass
class Files:
    descriptors: list[int] = field(default_factory=list)
    _files: dict[tuple[int, int], int] = field(default_factory=dict)

    def number(self, descriptor: int) -> int:
        status = os.fstat(descriptor)
        number = self._files.setdefault((status.st_dev, status.st_ino), len(self.descriptors))
        if number == len(self.descriptors):
            self.descriptors.append(descriptor)
        return number


class ModuleWeights:
    """A module's weight and bias in one allocation. Holds them by what they are, to see whether they are others later."""

    def __init__(self, module: Any, origin: int, nbytes: int, tensors: list[Any], places: list[int],
                 pieces: list[Piece]) -> None:
        self.origin = origin
        self.nbytes = nbytes
        self.pieces = pieces
        self._module = weakref.ref(module)  # Which holds the VBAR, which holds us.
        self._tensors = tensors
        self._places = places
        self._shown: Any = None

    def clean(self) -> bool:
        module: Any = self._module()
        return (module.weight is self._tensors[0] and module.bias is self._tensors[1]
                and all(getattr(module, f"{name}_lowvram_function", None) is None
                        and not getattr(module, f"{name}_function", None) for name in ("weight", "bias")))

    def show(self, address: int, signature: Any) -> None:
        module: Any = self._module()
        if self._shown is not None and module._v_signature is self._shown:
            return
        views: list[Any] = [None, None]
        index = module._v[0].device
        memory = over_pages(module._v, "cpu" if on_host(index) else f"cuda:{index}")
        for number, (tensor, place) in enumerate(zip(self._tensors, self._places)):
            if tensor is not None:
                dtype = _wanted(tensor)
                nbytes = tensor.numel() * dtype.itemsize
                views[number] = memory[place:place + nbytes].view(dtype).view(tensor.shape)
        module._v_weight, module._v_bias = views
        module._v_signature = self._shown = signature


def _weights_of(module: Any, vbar: ModelVBAR, files: Files) -> ModuleWeights | None:
    """None: not all of its weights are a file's. In shared pages it would be written to at once, and be there twice."""
    allocation = getattr(module, "_v", None)
    if allocation is None or allocation[0] is not vbar or not hasattr(module, "weight"):
        return None
    tensors = [module.weight, getattr(module, "bias", None)]
    places = list(_places(tensors))
    pieces = [_piece(tensor, place, files) for tensor, place in zip(tensors, places) if tensor is not None]
    filed = [piece for piece in pieces if piece is not None]
    if not filed or len(filed) < len(pieces):
        return None
    return ModuleWeights(module, allocation[1] - vbar.base_addr, allocation[2], tensors, places, filed)


def _places(tensors: list[Any]) -> Iterator[int]:
    at = 0
    for tensor in tensors:
        yield at
        if tensor is not None:
            at += -(-tensor.numel() * _wanted(tensor).itemsize // _ALIGNMENT) * _ALIGNMENT


def _wanted(tensor: Any) -> torch.dtype:
    return getattr(tensor, "_model_dtype", None) or tensor.dtype


def _piece(tensor: Any, place: int, files: Files) -> Piece | None:
    """None: it is no plain tensor of a file, or one that the service would make otherwise."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return None
    part = getattr(tensor.untyped_storage(), "_comfy_tensor_file_slice", None)
    stored, wanted = _NAMES.get(tensor.dtype), _NAMES.get(_wanted(tensor))
    if part is None or stored is None or wanted is None or not isinstance(part.file_ref, int):
        return None
    whole = tensor.is_contiguous() and tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == part.size
    made = stored == wanted or (stored in _SOURCES and wanted in _TARGETS)
    if not whole or not made or part.size == 0:
        return None
    return Piece(place, files.number(part.file_ref), part.offset, part.size, stored, wanted)
