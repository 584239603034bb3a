# SPDX-License-Identifier: Apache-2.0
"""Checkpoints out of the service for ComfyUI without DynamicVRAM: shared between processes, read once.

Only safetensors files for host memory; whatever else ComfyUI reads, and whatever the service refuses, goes to ComfyUI's own
loader. Tensors show the shared frames; what is written to one stays in this process.
"""

from __future__ import annotations

import functools
import importlib
import sys
import time
from typing import Any

import penstock
import penstock.torch  # noqa: F401 - That torch is missing is to be found out here.
from penstock import errors
from penstock._dtypes import DTYPES
from penstock.safe import shown
from penstock_comfyui import parameters
from penstock_comfyui.lent_files import LentFile
from penstock_comfyui.link import AWAY, link, say_once

# Modules that hold a reference of their own.
_HOLDERS = ("comfy.clip_vision", "comfy.bg_removal_model")
_MARK = "_penstock"
# Where torch itself puts tensors. Products of one row have other roundings on memory that is aligned to less than 16.
_ALIGNMENT = 64
_SUFFIXES = (".safetensors", ".sft")
LOAD_SECONDS = 300.0  # A disk may be slow; a mount that hangs does so for ever.
SIGN_SECONDS = 5.0  # Of a load: after so long the service is asked whether it is there at all.


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
    loaders = parameters.loaders()
    importlib.import_module("comfy.memory_management").aimdo_enabled  # noqa: B018
    utils.DISABLE_MMAP  # noqa: B018
    load = _wrapped(before, utils)
    for module in (utils, *(sys.modules[name] for name in _HOLDERS if name in sys.modules)):
        if getattr(module, "load_torch_file", None) is before:
            module.load_torch_file = load
    parameters.install(loaders)


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
        found = _lent(service, ckpt, host)
        link.back()
        return found
    except AWAY as error:
        link.away(error)
        raise _NotOurs("") from error
    except penstock.PenstockError as error:
        raise _NotOurs(f"{error.kind}, {error}") from error


def _lent(service: penstock.Service, ckpt: Any, device: str) -> tuple[dict[str, Any], dict[str, str] | None]:
    try:
        lent = LentFile(ckpt)
    except OSError as error:
        raise _NotOurs(str(error)) from error
    try:
        return _tensors(service if lent.alone else link.beside(), ckpt, device, lent)
    finally:
        lent.end()


def _tensors(service: penstock.Service, ckpt: Any, device: str,
             lent: LentFile) -> tuple[dict[str, Any], dict[str, str] | None]:
    with link.patiently(service, lambda: service.open(ckpt, _ALIGNMENT, device)) as checkpoint:
        strange = sorted({one.dtype for one in checkpoint.tensors.values() if not _torch_has(one.dtype)})
        if strange:
            raise _NotOurs(f"torch has no {', '.join(strange)}")
        found, pins = {}, []
        with _pinned(service, checkpoint) as pinned:
            for name in pinned:
                # Each tensor keeps its own pages from here on. They are there: nothing waits.
                tensor = checkpoint.pin(name, SIGN_SECONDS)
                pins.append(tensor.keeper())
                found[name] = shown(tensor, "torch")
        lent.loaded(checkpoint, pins)
        for tensor, pin in zip(found.values(), pins):
            parameters.mark(tensor, pin)
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
