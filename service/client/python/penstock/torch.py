# SPDX-License-Identifier: Apache-2.0
"""As safetensors.torch, out of the service's memory."""

from __future__ import annotations

import os
from typing import Any

from penstock import safe


def load_file(filename: str | os.PathLike[str], device: str = "cpu") -> dict[str, Any]:
    """Tensors by name; each keeps its pages pinned while it lives. What is written to one stays in this process."""
    return safe.load_file(filename, "torch", device)
