# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.torch: tensors over addresses."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from penstock_comfyui import gpu, theirs
from penstock_comfyui.surface.host_buffer import HostBuffer
from penstock_comfyui.surface.model_vbar import ModelVBAR
from penstock_comfyui.surface.vram_buffer import VRAMBuffer


def get_tensor_from_raw_ptr(ptr: int, size: int, device: Any) -> Any:
    if torch.device(device).type != "cpu":
        return theirs.call("torch", "get_tensor_from_raw_ptr", ptr, size, device)
    return _over(ptr, size, None)


def aimdo_to_tensor(alloc: tuple[Any, int, int], device: Any) -> Any:
    """Bytes. The tensor keeps its VBAR or cast buffer; its memory may only be touched between fault and unpin."""
    if not isinstance(alloc[0], (ModelVBAR, VRAMBuffer)):
        return theirs.call("torch", "aimdo_to_tensor", alloc, device)
    if torch.device(device).type != "cpu":
        return torch.as_tensor(gpu.Bytes(alloc[1], alloc[2], alloc[0]), device=device)
    return _over(alloc[1], alloc[2], alloc[0])


def hostbuf_to_tensor(hostbuf: Any) -> Any:
    """All of its bytes; the tensor keeps it."""
    if not isinstance(hostbuf, HostBuffer):
        return theirs.call("torch", "hostbuf_to_tensor", hostbuf)
    return _over(hostbuf.get_raw_address(), hostbuf.size, hostbuf)


def _over(address: int, size: int, keeper: Any) -> Any:
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory.keeper = keeper  # type: ignore[attr-defined]
    return torch.frombuffer(memory, dtype=torch.uint8)


class CUDAPluggableAllocator:
    """Theirs, where it works: host memory has no allocator of torch's."""

    def __new__(cls) -> Any:
        other = theirs.module("torch")
        if other is None or not theirs.works():
            raise RuntimeError("penstock: there is no pluggable allocator for host memory")
        return other.CUDAPluggableAllocator()


def get_torch_allocator() -> Any:
    return theirs.call("torch", "get_torch_allocator") if theirs.works() else None
