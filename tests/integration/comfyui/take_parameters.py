# SPDX-License-Identifier: Apache-2.0
"""Run with ComfyUI's Python in its folder: small models of its own kinds, loaded by itself and out of the service.

usage: take_parameters.py NODE FOLDER; prints for each kind how many of its weights' bytes show the service's pages, of how
many, and whether what the model makes is what plain ComfyUI's makes, as JSON.
"""

import json
import sys
from pathlib import Path

sys.path.append(f"{sys.argv[1]}/python")
sys.argv, NODE, FOLDER = ["main.py"], sys.argv[1], Path(sys.argv[2])

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing(False)
import comfy.cli_args  # noqa: E402

comfy.cli_args.args.cpu = True
import comfy.bg_removal_model  # noqa: E402
import comfy.clip_vision  # noqa: E402
import comfy.sd  # noqa: E402
import comfy.utils  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402

ACT = {"hidden_act": "quick_gelu", "num_attention_heads": 1, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128}
TEXT = {**ACT, "max_position_embeddings": 77, "eos_token_id": 49407, "vocab_size": 49408, "projection_dim": 64}
VISION = {**ACT, "image_size": 32, "patch_size": 16, "num_channels": 3, "projection_dim": 64, "model_type": "clip_vision_model"}


class Background(torch.nn.Module):
    """Of the one architecture that there is the smallest has 200 million weights."""

    def __init__(self, _config, dtype, device, operations):
        super().__init__()
        self.layer = operations.Linear(64, 64, dtype=dtype, device=device)


def text(sd):
    return comfy.sd.load_text_encoder_state_dicts([sd], model_options={name: dict(TEXT) for name in ("model_config", "clip_l_model_config")})


def vision(sd):
    (FOLDER / "vision.json").write_text(json.dumps(VISION))
    model = comfy.clip_vision.ClipVisionModel(str(FOLDER / "vision.json"))
    model.load_sd(sd)
    return model


def background(sd):
    comfy.bg_removal_model.BG_REMOVAL_MODELS["test"] = Background
    (FOLDER / "background.json").write_text('{"model_type": "test"}')
    model = comfy.bg_removal_model.BackgroundRemovalModel(str(FOLDER / "background.json"))
    model.load_sd(sd)
    return model


def pixels(sd):
    return comfy.sd.VAE(sd=sd)


# The model of a kind, its torch module, and what it makes.
KINDS = {
    "text": (text, lambda one: one.cond_stage_model.clip_l.transformer, lambda one: one.encode("a cat")[0]),
    "vision": (vision, lambda one: one.model, lambda one: one.encode_image(torch.ones(1, 32, 32, 3) / 3)["last_hidden_state"]),
    "background": (background, lambda one: one.model, lambda one: one.model.layer(torch.ones(64, dtype=torch.float16))),
    "decoder": (pixels, lambda one: one.first_stage_model, lambda one: one.decode(torch.ones(1, 16, 8, 8) / 2)),
}


def pages_of_the_service(module):
    """Bytes of weights that lie in its frames, and of all."""
    frames = [(int(line.split("-")[0], 16), int(line.split("-")[1].split()[0], 16))
              for line in Path("/proc/self/maps").read_text().splitlines() if "/memfd:" in line]
    weights = list(module.state_dict().values())
    shown = sum(one.nbytes for one in weights if any(first <= one.data_ptr() < end for first, end in frames))
    return shown, sum(one.nbytes for one in weights)


def write(kind):
    """A file of random weights of the model's own dtype; there is one of the decoder."""
    make, module, _ = KINDS[kind]
    path = FOLDER / f"{kind}.safetensors"
    torch.manual_seed(len(kind))
    empty = {name: one.clone() for name, one in module(make({})).state_dict().items()}
    safetensors.torch.save_file({name: torch.randn(one.shape).mul(0.05).to(one.dtype) if one.is_floating_point() else one
                                 for name, one in empty.items()}, path)


plain = {}
for kind, (make, module, use) in KINDS.items():
    if kind != "decoder":
        write(kind)
    plain[kind] = use(make(comfy.utils.load_torch_file(str(FOLDER / f"{kind}.safetensors"))))

from penstock_comfyui import reads  # noqa: E402
from penstock_comfyui.surface import control  # noqa: E402

sys.modules["comfy_aimdo.control"] = control  # ComfyUI's modules have their own by now.
reads.install()
found = {}
for kind, (make, module, use) in KINDS.items():
    one = make(comfy.utils.load_torch_file(str(FOLDER / f"{kind}.safetensors")))
    shown, nbytes = pages_of_the_service(module(one))
    found[kind] = {"shown": shown, "bytes": nbytes, "same": torch.equal(use(one), plain[kind])}
print(json.dumps(found))
