# SPDX-License-Identifier: Apache-2.0
"""A prompt without a text encoder: fixed random numbers of the widths that the small model wants."""

import time
from pathlib import Path

import torch


class TestConditioning:
    CATEGORY, FUNCTION, RETURN_TYPES = "test", "make", ("CONDITIONING",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seed": ("INT", {"default": 1, "min": 0, "max": 1 << 16})}}

    def make(self, seed):
        random = torch.Generator().manual_seed(seed)
        text = torch.randn(1, 8, 32, generator=random)
        return ([[text, {"pooled_output": torch.randn(1, 16, generator=random)}]],)


class TestLoaded:
    """Ends a workflow where a model's weights are ready."""

    CATEGORY, FUNCTION, RETURN_TYPES, OUTPUT_NODE = "test", "look", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",)}}

    def look(self, model):
        return {"ui": {}}


def wait_for(path):
    """Says that it was reached, and waits for a file."""
    Path(path).with_suffix(".reached").touch()
    end = time.monotonic() + 120
    while not Path(path).exists():
        if time.monotonic() > end:
            raise RuntimeError(f"{path} did not come")
        time.sleep(0.01)


class TestHeld:
    """A model that is waited in after the first step of sampling, for a file; else the same."""

    CATEGORY, FUNCTION, RETURN_TYPES = "test", "hold", ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "path": ("STRING", {"default": ""})}}

    def hold(self, model, path):
        steps = []

        def after_a_step(step):
            steps.append(step["sigma"])
            if len(steps) == 1:
                wait_for(path)
            return step["denoised"]

        held = model.clone()
        held.set_model_sampler_post_cfg_function(after_a_step)
        return (held,)


class TestGate:
    """Between two nodes."""

    CATEGORY, FUNCTION, RETURN_TYPES = "test", "wait", ("LATENT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "path": ("STRING", {"default": ""})}}

    def wait(self, samples, path):
        wait_for(path)
        return (samples,)


NODE_CLASS_MAPPINGS = {"TestGate": TestGate, "TestHeld": TestHeld, "TestConditioning": TestConditioning, "TestLoaded": TestLoaded}
