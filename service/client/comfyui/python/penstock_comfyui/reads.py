# SPDX-License-Identifier: Apache-2.0
"""Checkpoints out of the service for ComfyUI without DynamicVRAM: shared between processes, read once.

Only safetensors files for host memory; whatever else ComfyUI reads, and whatever the service refuses, goes to ComfyUI's own
loader. Tensors show the shared frames; what is written to one stays in this process.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
import threading
import time
import weakref
from typing import Any

import penstock
import penstock.torch  # noqa: F401 - That torch is missing is to be found out here.
from penstock import errors
from penstock._dtypes import DTYPES
from penstock.safe import shown
from penstock_comfyui.holdings import SHARED_BYTES
from penstock_comfyui.link import AWAY, link, say_once

# Modules that hold a reference of their own.
_HOLDERS = ("comfy.clip_vision", "comfy.bg_removal_model")
_MARK = "_penstock"
# Where torch itself puts tensors. Products of one row have other roundings on memory that is aligned to less than 16.
_ALIGNMENT = 64
_SUFFIXES = (".safetensors", ".sft")
LOAD_SECONDS = 300.0  # A disk may be slow; a mount that hangs does so for ever.
SIGN_SECONDS = 5.0  # Of a load: after so long the service is asked whether it is there at all.


# Which views of which file's pages this process has, by the file's identity. One content is one memory in a process, and
# what is written to it is seen by all of its views.
_lent: dict[tuple[int, ...], list[weakref.ref[Any]]] = {}
_lent_lock = threading.Lock()


class _NotOurs(Exception):
    """Why ComfyUI's own loader is to read a file."""


def install() -> None:
    """REQUIRES: ComfyUI's modules are imported. Calling it again changes nothing."""
    if getattr(sys.modules.get("comfy_aimdo.control"), "__name__", "") != "penstock_comfyui.surface.control":
        return  # Refused at the start, and said so.
    utils: Any = importlib.import_module("comfy.utils")
    before = utils.load_torch_file
    if hasattr(before, _MARK):
        return
    # All names first: a ComfyUI that lacks one stays as it is.
    model: Any = importlib.import_module("comfy.model_base").BaseModel
    assigning = _assigning(model.load_model_weights)
    importlib.import_module("comfy.memory_management").aimdo_enabled  # noqa: B018
    utils.DISABLE_MMAP  # noqa: B018
    load = _wrapped(before, utils)
    for module in (utils, *(sys.modules[name] for name in _HOLDERS if name in sys.modules)):
        if getattr(module, "load_torch_file", None) is before:
            module.load_torch_file = load
    model.load_model_weights = assigning


def _wrapped(before: Any, utils: Any) -> Any:
    @functools.wraps(before)
    def load_torch_file(ckpt: Any, safe_load: bool = False, device: Any = None, return_metadata: bool = False) -> Any:
        try:
            tensors, metadata = _load(ckpt, device, utils)
        except _NotOurs as reason:
            if str(reason):
                say_once(f"{ckpt} is read by ComfyUI: {reason}")
            return before(ckpt, safe_load=safe_load, device=device, return_metadata=return_metadata)
        return (tensors, metadata) if return_metadata else tensors

    setattr(load_torch_file, _MARK, True)
    return load_torch_file


def _load(ckpt: Any, device: Any, utils: Any) -> tuple[dict[str, Any], dict[str, str] | None]:
    management: Any = sys.modules["comfy.memory_management"]
    if management.aimdo_enabled or not str(ckpt).lower().endswith(_SUFFIXES):
        raise _NotOurs("")  # As ever: nothing to tell.
    if getattr(device, "type", "cpu") != "cpu":
        raise _NotOurs(f"its tensors are wanted on {device}")
    if utils.DISABLE_MMAP:
        raise _NotOurs("--disable-mmap")
    service = link.service()
    if service is None:
        raise _NotOurs("")  # The link has said so.
    try:
        host = next((one.id for one in service.devices if one.kind == "host"), None)
        if host is None:
            raise _NotOurs('the service has pages on GPUs alone; [device.host] enabled = "on" gives it some in host memory')
        with _Lending(ckpt) as lending:
            found = _tensors(service, ckpt, host, lending)
        link.back()
        return found
    except AWAY as error:
        link.away(error)
        raise _NotOurs("") from error
    except penstock.PenstockError as error:
        raise _NotOurs(f"{error.kind}, {error}") from error


class _Lending:
    """The one load of a file whose tensors show its pages; as long as one of them lives, other loads are ComfyUI's."""

    def __init__(self, ckpt: Any) -> None:
        try:
            found = os.stat(ckpt)
        except OSError as error:
            raise _NotOurs(str(error)) from error
        self._file = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        self._views: list[weakref.ref[Any]] = []

    def __enter__(self) -> _Lending:
        if self._is_lent():
            gc.collect()  # A model that was unloaded may be garbage that nobody has collected.
        with _lent_lock:
            if self._is_lent():
                raise _NotOurs("this process shows it already, and what is written to one load must not be seen in another")
            _lent[self._file] = self._views
        return self

    def __exit__(self, *failed: object) -> None:
        with _lent_lock:
            if not self._views:
                del _lent[self._file]

    def note(self, pin: Any) -> None:
        """`pin` lives as long as a view of it."""
        self._views.append(weakref.ref(pin))

    def _is_lent(self) -> bool:
        views = _lent.get(self._file)
        # An empty list is that of another thread, which loads it right now.
        return views is not None and (not views or any(view() is not None for view in list(views)))


def _tensors(service: penstock.Service, ckpt: Any, device: str,
             lending: _Lending) -> tuple[dict[str, Any], dict[str, str] | None]:
    with link.patiently(service, lambda: service.open(ckpt, _ALIGNMENT, device)) as checkpoint:
        strange = sorted({one.dtype for one in checkpoint.tensors.values() if not _torch_has(one.dtype)})
        if strange:
            raise _NotOurs(f"torch has no {', '.join(strange)}")
        found = {}
        with _pinned(service, checkpoint) as pinned:
            for name in pinned:
                # Each tensor keeps its own pages from here on. They are there: nothing waits.
                tensor = checkpoint.pin(name, SIGN_SECONDS)
                lending.note(tensor.keeper())
                found[name] = shown(tensor, "torch")
        for tensor in found.values():
            setattr(tensor.untyped_storage(), _MARK, True)
        return found, dict(checkpoint.metadata) or None


def _pinned(service: penstock.Service, checkpoint: penstock.Checkpoint) -> Any:
    """All of it. DeadlineError: the file is too slow, or the service says nothing."""
    end = time.monotonic() + LOAD_SECONDS
    while True:
        try:
            return checkpoint.pin(timeout=SIGN_SECONDS)
        except errors.DeadlineError:
            link.check(service)
            if time.monotonic() >= end:
                raise


def _torch_has(dtype: str) -> bool:
    name = DTYPES[dtype].torch if dtype in DTYPES else ""
    return bool(name) and hasattr(sys.modules["torch"], name)


def _assigning(before: Any) -> Any:
    """The model takes our tensors as its parameters where that makes no difference but the copy."""

    @functools.wraps(before)
    def load_model_weights(self: Any, sd: Any, unet_prefix: str = "", assign: bool = False) -> Any:
        shared = _may_assign(self, sd, unet_prefix)
        if shared:
            setattr(self, SHARED_BYTES, sum(one.nbytes for name, one in sd.items() if name.startswith(unet_prefix)))
        return before(self, sd, unet_prefix, assign=assign or shared)

    return load_model_weights


def _may_assign(model: Any, sd: Any, prefix: str) -> bool:
    given = {name[len(prefix):]: tensor for name, tensor in sd.items() if name.startswith(prefix)}
    if not given or not all(hasattr(tensor.untyped_storage(), _MARK) for tensor in given.values()):
        return False
    there = {**dict(model.diffusion_model.named_parameters()), **dict(model.diffusion_model.named_buffers())}
    if not all(_kind(there[name]) == _kind(tensor) for name, tensor in given.items() if name in there):
        return False
    # What ComfyUI will rename for the model: which is which is not known here, so all must be of one kind.
    renamed = [tensor for name, tensor in given.items() if name not in there]
    awaited = [tensor for name, tensor in there.items() if name not in given]
    return not renamed or not awaited or len({_kind(tensor) for tensor in renamed + awaited}) <= 1


def _kind(tensor: Any) -> tuple[Any, Any]:
    return tensor.dtype, tensor.device
