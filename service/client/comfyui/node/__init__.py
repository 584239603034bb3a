# SPDX-License-Identifier: Apache-2.0
"""Run by ComfyUI when it loads its custom nodes: everything of it is there now."""

import importlib
import logging

NODE_CLASS_MAPPINGS: dict = {}
WEB_DIRECTORY = None  # Nothing is served where penstock is not used.

# Each part by itself: one that doesn't work leaves ComfyUI's own way, and the others.
for _name, _else in (("reads", "checkpoints are read by ComfyUI"), ("sharing", "weights of models are not shared"),
                     ("boundaries", "the service's asks are answered while weights are used alone")):
    try:
        importlib.import_module(f"penstock_comfyui.{_name}").install()
    except Exception as error:  # noqa: BLE001
        logging.warning("penstock: %s: %s: %s", _else, type(error).__name__, error)

try:
    from penstock_comfyui import panel

    if panel.install():
        WEB_DIRECTORY = "./web"
except Exception as error:  # noqa: BLE001 - It works without being looked at.
    logging.warning("penstock: there is no panel: %s: %s", type(error).__name__, error)
