# SPDX-License-Identifier: Apache-2.0
"""Run by ComfyUI before it imports torch. Must not fail, and must not import torch."""

import logging
import sys
from pathlib import Path


def _start() -> None:
    folder = str(Path(__file__).resolve().parent / "python")
    if folder not in sys.path:
        sys.path.append(folder)  # Last: an installed package goes first.
    try:
        from penstock_comfyui.start import start

        start()
    except Exception as error:  # noqa: BLE001 - ComfyUI runs without us then.
        logging.warning("penstock: not used: %s: %s", type(error).__name__, error)


_start()
