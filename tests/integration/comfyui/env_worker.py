# SPDX-License-Identifier: Apache-2.0
"""Run with ComfyUI's Python in its folder: comfy-env's own pool, with a worker process of its own that loads a model.

usage: env_worker.py NODE COMFY_ENV MODEL_BYTES; prints what was answered and what the worker made of it as JSON. A device
that isn't there plays the parent's; what ComfyUI would hold on it is nothing. In the worker, `load` is called.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

WORKER_SEES = 40 << 30  # What the worker takes for free before it hears of others.
PARENT_SEES = 30 << 30


def load(nbytes: int) -> dict[str, int]:
    """In the worker: ComfyUI's own loader, which comfy-env has wrapped there."""
    import comfy.model_management as management
    import comfy.model_patcher
    import torch

    device = management.get_torch_device()
    real = management.get_free_memory
    management.get_free_memory = lambda dev=None, torch_free_too=False: (WORKER_SEES, 0) if torch_free_too else WORKER_SEES
    try:
        model = torch.nn.Linear(1024, nbytes // 4096, bias=False)
        patcher = comfy.model_patcher.ModelPatcher(model, device, torch.device("cpu"))
        management.load_models_gpu([patcher])
    finally:
        management.get_free_memory = real
    return {"process": os.getpid(), "reserve": int(management.EXTRA_RESERVED_VRAM), "size": int(patcher.model_size()),
            "loaded": len(management.current_loaded_models)}


def environment() -> Path:
    """This Python's, as a folder of its own. comfy-env has a worker look for libraries in its lib first, then in the system's,
    where another Python's may be."""
    made, prefix = Path(tempfile.mkdtemp(prefix="environment-")), Path(sys.prefix)
    for name in ("bin", "lib"):
        (made / name).mkdir()
    (made / "bin/python").symlink_to(os.path.realpath(sys.executable))
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(prefix / "pyvenv.cfg", made)
    libraries = Path(sysconfig.get_config_var("LIBDIR") or prefix / "lib").glob("libpython*")
    for path in [*(prefix / "lib").glob("python*"), *libraries]:
        with contextlib.suppress(FileExistsError):
            (made / "lib" / path.name).symlink_to(path)
    return made


def main() -> None:
    node, folder, size = sys.argv[1:4]
    sys.path += [f"{node}/python", folder]
    sys.argv = ["main.py"]

    import comfy.options

    comfy.options.enable_args_parsing(False)
    import comfy.cli_args

    comfy.cli_args.args.cpu = True
    import comfy.model_management as management
    import torch
    from comfy_env.isolation import pool
    from penstock_comfyui import devices, workers
    from penstock_comfyui.link import link

    device = torch.device("cuda", 0)
    management.get_torch_device = lambda: device
    management.get_free_memory = lambda dev=None, torch_free_too=False: (PARENT_SEES, 0) if torch_free_too else PARENT_SEES
    devices.id_of = lambda index: "host"
    service = link.service()
    assert service is not None
    workers.look()
    replies, booked = [], []
    ours = pool._handle_vram_budget

    def _handle_vram_budget(request: dict, worker_key: object = None) -> dict:
        need = workers.need(management, pool, request, worker_key)
        replies.append({"need": need, "request": sorted(request), "reply": ours(request, worker_key=worker_key)})
        booked.append(service.status()["devices"][0]["booked_bytes"])
        return dict(replies[-1]["reply"])

    pool._handle_vram_budget = _handle_vram_budget
    here = str(Path(__file__).resolve().parent)
    worker, _ = pool._get_or_create_worker(environment(), Path.cwd(), [str(Path.cwd()), here],
                                           {"PENSTOCK_SOURCE_DIR": os.environ["PENSTOCK_SOURCE_DIR"]})
    try:
        loaded = worker.call_module("env_worker", "load", nbytes=int(size))
    finally:
        pool._shutdown_all_workers()
    workers.release()
    print(json.dumps({"replies": replies, "booked": booked, "left": service.status()["devices"][0]["booked_bytes"],
                      "worker": loaded, "parent": os.getpid(), "margin": int(management.EXTRA_RESERVED_VRAM)}))


if __name__ == "__main__":
    main()
