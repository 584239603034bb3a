# SPDX-License-Identifier: Apache-2.0
"""penstock: model weights out of penstockd, shared by all processes of the node.

    with penstock.connect() as service:
        checkpoint = service.open("flux.safetensors")
        with checkpoint.pin("a.weight") as tensor:
            use(tensor.numpy())
"""

from __future__ import annotations

import importlib
from typing import Any

from penstock import errors
from penstock._pressure import Pressure
from penstock.checkpoints import Checkpoint
from penstock.errors import *  # noqa: F403
from penstock.errors import PenstockError
from penstock.holdings import Holding
from penstock.safe import safe_open
from penstock.services import Device, Grant, Service, connect
from penstock.tensors import PinnedTensor, PinnedTensors, Tensor

__version__ = "0.1.0"

__all__ = ["Checkpoint", "Device", "Grant", "Holding", "PenstockError", "PinnedTensor", "PinnedTensors", "Pressure",
           "Service", "Tensor", "connect", "errors", "safe_open", *errors.__all__]


def __getattr__(name: str) -> Any:
    if name in ("numpy", "torch"):  # Only for those who have the packages.
        return importlib.import_module(f"penstock.{name}")
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
