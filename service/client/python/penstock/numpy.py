# SPDX-License-Identifier: Apache-2.0
"""As safetensors.numpy, out of the service's memory."""

from __future__ import annotations

import os
from typing import Any

from penstock import safe


def load_file(filename: str | os.PathLike[str]) -> dict[str, Any]:
    """Read-only arrays by name; each keeps its pages pinned while it lives."""
    return safe.load_file(filename, "numpy")
