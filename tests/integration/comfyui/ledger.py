# SPDX-License-Identifier: Apache-2.0
"""Run with ComfyUI's Python in its folder: its own free_memory, with others' memory in its ledger as a stand-in.

usage: ledger.py NODE ASKED_BYTES; prints what the stand-in held before and after as JSON. A GPU that ComfyUI
is said to have is the service's host device here: no work is done on it.
"""

import json
import sys

sys.path.append(f"{sys.argv[1]}/python")
sys.argv, NODE, ASKED = ["main.py"], sys.argv[1], int(sys.argv[2])

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing(False)
import comfy.cli_args  # noqa: E402

comfy.cli_args.args.cpu = True
import comfy.model_management as management  # noqa: E402
from penstock_comfyui import boundaries, others  # noqa: E402
from penstock_comfyui.link import link  # noqa: E402
from penstock_comfyui.safe_points import recent_status  # noqa: E402
from penstock_comfyui.stand_in import StandIns  # noqa: E402
import penstock_comfyui.safe_points  # noqa: E402
import torch  # noqa: E402

penstock_comfyui.safe_points.STATUS_SECONDS = 0
assert link.service() is not None and recent_status()
gpu = torch.device("cuda", 0)
management.get_all_torch_devices = lambda *_, **__: [torch.device("cpu"), gpu]
stand_ins = StandIns(management)
management.free_memory = boundaries._around_free(management.free_memory, management, stand_ins, boundaries._Loads())
stand_ins.place()
(entry,) = management.current_loaded_models
before = entry.model.loaded_size()
free = management.get_free_memory
management.get_free_memory = lambda device=None, torch_free_too=False: (1 << 30, 1) if torch_free_too else 1 << 30
management.free_memory((1 << 30) + ASKED, gpu)
after = entry.model.loaded_size()
others.release()
# --disable-smart-memory: each time all is told to go, and then what is lacking is asked for.
management.DISABLE_SMART_MEMORY = True
management.free_memory(1 << 30, gpu)
unasked = entry.model.loaded_size()
management.free_memory((1 << 30) + 1, gpu)
unsmart = entry.model.loaded_size()
# What ComfyUI does with every entry of its ledger at loads, at its button, and when memory is short.
management.unload_all_models()
management.free_memory(1e30, gpu)
management.load_models_gpu([])
management.cleanup_models_gc()
management.cleanup_models()
management.reset_cast_buffers()
assert [entry] == management.current_loaded_models and management.loaded_models(only_currently_used=True) == []
print(json.dumps({"before": before, "after": after, "unasked": unasked, "unsmart": unsmart, "end": entry.model.loaded_size()}))
