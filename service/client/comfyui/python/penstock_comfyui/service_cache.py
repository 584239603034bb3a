# SPDX-License-Identifier: Apache-2.0
"""What the service keeps of a file that nobody needs here any more."""

from __future__ import annotations

from typing import Any

import penstock
from penstock import errors
from penstock_comfyui.link import link


def evict(service: penstock.Service, which: dict[str, Any]) -> int | None:
    """The bytes that left the device. None: others have the file open, or it takes its time."""
    try:
        return int(service.query("evict", which)["evicted_bytes"])
    except errors.DeadlineError:
        link.check(service)  # Slow, or silent: then nothing more is asked.
    except errors.NotPermittedError:
        pass
    except errors.NotFoundError:
        return 0
    return None
