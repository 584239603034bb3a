# SPDX-License-Identifier: Apache-2.0
"""comfy_aimdo.storage: is a path on a fast disk?"""

from __future__ import annotations

from typing import Any

from penstock_comfyui import theirs

lib = None


def fast_disk(path: Any) -> Any:
    return theirs.call("storage", "fast_disk", path)
