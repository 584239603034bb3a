# SPDX-License-Identifier: Apache-2.0
"""torch's tensors of bytes over memory that is ours, which they keep."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from penstock_comfyui import gpu


def over_pages(alloc: tuple[Any, int, int], device: Any) -> Any:
    """Of an allocation: what keeps it, address, bytes. On the device that it is for."""
    keeper, address, size = alloc
    if torch.device(device).type != "cpu":
        return torch.as_tensor(gpu.Bytes(address, size, keeper), device=device)
    return on_host(address, size, keeper)


def on_host(address: int, size: int, keeper: Any) -> Any:
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory.keeper = keeper  # type: ignore[attr-defined]
    return torch.frombuffer(memory, dtype=torch.uint8)
