# SPDX-License-Identifier: Apache-2.0
"""Run by ComfyUI when it loads its custom nodes: everything of it is there now."""

import logging

NODE_CLASS_MAPPINGS: dict = {}
WEB_DIRECTORY = None  # Nothing is served where penstock is not used.

try:
    from penstock_comfyui import boundaries, reads, sharing

    reads.install()
    sharing.install()
    boundaries.install()
except Exception as error:  # noqa: BLE001 - ComfyUI reads files itself then.
    logging.warning("penstock: checkpoints are read by ComfyUI: %s: %s", type(error).__name__, error)

try:
    from penstock_comfyui import panel

    if panel.install():
        WEB_DIRECTORY = "./web"
except Exception as error:  # noqa: BLE001 - It works without being looked at.
    logging.warning("penstock: there is no panel: %s: %s", type(error).__name__, error)
