# SPDX-License-Identifier: Apache-2.0
"""Which of ComfyUI's devices the service serves."""

from __future__ import annotations

import sys

from penstock_comfyui import theirs


def on_host(index: int | None) -> bool:
    """Weights of this device lie in host memory. Others are left to the modules that were there before."""
    if index is None or index < 0:
        return False
    arguments = getattr(sys.modules.get("comfy.cli_args"), "args", None)
    if arguments is not None:
        return bool(getattr(arguments, "cpu", False))
    return not theirs.works()
