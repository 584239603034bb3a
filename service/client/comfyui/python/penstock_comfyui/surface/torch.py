# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.torch: tensors over addresses."""

from __future__ import annotations

from typing import Any

import torch

from penstock_comfyui import theirs
from penstock_comfyui.surface.host_buffer import HostBuffer
from penstock_comfyui.surface.model_vbar import ModelVBAR
from penstock_comfyui.surface.vram_buffer import VRAMBuffer
from penstock_comfyui.tensors import on_host, over_pages


def get_tensor_from_raw_ptr(ptr: int, size: int, device: Any) -> Any:
    if torch.device(device).type != "cpu":
        return theirs.call("torch", "get_tensor_from_raw_ptr", ptr, size, device)
    return on_host(ptr, size, None)


def aimdo_to_tensor(alloc: tuple[Any, int, int], device: Any) -> Any:
    """Bytes. The tensor keeps its VBAR or cast buffer; its memory may only be touched between fault and unpin."""
    if not isinstance(alloc[0], (ModelVBAR, VRAMBuffer)):
        return theirs.call("torch", "aimdo_to_tensor", alloc, device)
    if isinstance(alloc[0], ModelVBAR) and alloc[0]._pages.is_refused(alloc[1]):
        return torch.empty(alloc[2], dtype=torch.uint8, device=device)  # As for weights that are offloaded.
    return over_pages(alloc, device)


def hostbuf_to_tensor(hostbuf: Any) -> Any:
    """All of its bytes; the tensor keeps it."""
    if not isinstance(hostbuf, HostBuffer):
        return theirs.call("torch", "hostbuf_to_tensor", hostbuf)
    return on_host(hostbuf.get_raw_address(), hostbuf.size, hostbuf)


class CUDAPluggableAllocator:
    """Theirs, where it works: host memory has no allocator of torch's."""

    def __new__(cls) -> Any:
        other = theirs.module("torch")
        if other is None or not theirs.works():
            raise RuntimeError("penstock: there is no pluggable allocator for host memory")
        return other.CUDAPluggableAllocator()

    def __init__(self) -> None:
        """Never of ours."""


def get_torch_allocator() -> Any:
    return theirs.call("torch", "get_torch_allocator") if theirs.works() else None
