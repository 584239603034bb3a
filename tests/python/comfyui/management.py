# SPDX-License-Identifier: Apache-2.0
"""ComfyUI's modules, as far as the boundaries look at them."""

from __future__ import annotations

import sys
import unittest
import unittest.mock
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from penstock_comfyui import boundaries


@contextmanager
def modules(**found: Any) -> Iterator[None]:
    named = {}
    for name, content in found.items():
        module: Any = ModuleType(name)
        module.__dict__.update(vars(content))
        named[name.replace("__", ".")] = module
    with unittest.mock.patch.dict(sys.modules, named):
        yield


def boundaries_of(test: unittest.TestCase, said: list[str], dynamic: bool = True) -> Any:
    """Installed for the test: ComfyUI's memory management, and an executor whose prompts are lists of nodes, functions. They
    note in `said` what is called."""

    class PromptExecutor:
        def reset(self) -> None:
            said.append("forgot")

        async def execute_async(self, prompt: Any) -> Any:
            said.append("prompt")
            if prompt == "fails":
                raise ValueError(prompt)
            for node in prompt if isinstance(prompt, list) else ():
                await sys.modules["execution"].execute(node)
            return prompt

    async def execute(node: Any) -> Any:
        try:
            return node()
        finally:
            if dynamic:
                sys.modules["comfy.model_management"].reset_cast_buffers()

    management = SimpleNamespace(EXTRA_RESERVED_VRAM=7, reset_cast_buffers=lambda: said.append("reset"),
                                 synchronize=lambda: said.append("synchronize"),
                                 free_memory=lambda memory_required, device: said.append("free"),
                                 unload_all_models=lambda: said.append("unload"), current_loaded_models=[],
                                 load_models_gpu=lambda models, memory_required: said.append("load"),
                                 minimum_inference_memory=lambda: 0, get_torch_device=lambda: SimpleNamespace(index=None),
                                 get_all_torch_devices=lambda: [SimpleNamespace(type="cpu", index=None)])
    test.enterContext(modules(comfy_aimdo__control=SimpleNamespace(__name__="penstock_comfyui.surface.control"),
                              comfy__model_management=management, comfy=SimpleNamespace(),
                              comfy__memory_management=SimpleNamespace(aimdo_enabled=dynamic),
                              execution=SimpleNamespace(PromptExecutor=PromptExecutor, execute=execute)))
    boundaries.install()
    boundaries.install()  # Twice is once.
    return sys.modules["comfy.model_management"], sys.modules["execution"].PromptExecutor()
