# SPDX-License-Identifier: Apache-2.0
"""Small models of random weights that ComfyUI takes for a Flux, a TAESD and a LoRA. Run by ComfyUI's Python: needs numpy.

usage: models.py FOLDER [DTYPE [HEADS [BLOCKS]]]    float16 (default) or float32; 16 heads and 3 blocks in float32: 2 GiB
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy

TEXT, POOLED, CHANNELS = 32, 16, 16
HEADS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
BLOCKS = int(sys.argv[4]) if len(sys.argv) > 4 else 1
WIDTH = 128 * HEADS  # ComfyUI wants a width of 16 + 56 + 56 for a head.

Shapes = dict[str, tuple[int, ...]]


def dense(name: str, out: int, into: int) -> Shapes:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def flux() -> Shapes:
    shapes = {**dense("img_in", WIDTH, 4 * CHANNELS), **dense("txt_in", WIDTH, TEXT)}
    for name, into in (("time_in", 256), ("vector_in", POOLED)):
        shapes |= dense(f"{name}.in_layer", WIDTH, into) | dense(f"{name}.out_layer", WIDTH, WIDTH)
    for block in range(BLOCKS):
        for side in ("img", "txt"):
            start = f"double_blocks.{block}.{side}_"
            shapes |= dense(start + "mod.lin", 6 * WIDTH, WIDTH) | dense(start + "attn.qkv", 3 * WIDTH, WIDTH)
            shapes |= dense(start + "attn.proj", WIDTH, WIDTH)
            shapes |= dense(start + "mlp.0", 4 * WIDTH, WIDTH) | dense(start + "mlp.2", WIDTH, 4 * WIDTH)
            shapes |= {f"{start}attn.norm.{one}_norm.scale": (128,) for one in ("query", "key")}
        start = f"single_blocks.{block}."
        shapes |= dense(start + "linear1", 7 * WIDTH, WIDTH) | dense(start + "linear2", WIDTH, 5 * WIDTH)
        shapes |= dense(start + "modulation.lin", 3 * WIDTH, WIDTH)
        shapes |= {f"{start}norm.{one}_norm.scale": (128,) for one in ("query", "key")}
    return shapes | dense("final_layer.linear", 4 * CHANNELS, WIDTH) | dense("final_layer.adaLN_modulation.1", 2 * WIDTH, WIDTH)


def taesd() -> Shapes:
    shapes: Shapes = {"vae_scale": (), "vae_shift": ()}
    halves = {"taesd_encoder": ((0, 3, 64), (14, 64, CHANNELS), (2, 6, 10), range(1, 14)),
              "taesd_decoder": ((1, CHANNELS, 64), (19, 64, 3), (7, 12, 17), range(3, 19))}
    for half, (first, last, plain, middle) in halves.items():
        for place, into, out in (first, last):
            shapes |= {f"{half}.{place}.weight": (out, into, 3, 3), f"{half}.{place}.bias": (out,)}
        shapes |= {f"{half}.{place}.weight": (64, 64, 3, 3) for place in plain}
        # Upsampling layers of the decoder have no weights.
        skipped = {*plain, *((6, 11, 16) if half == "taesd_decoder" else ())}
        for place in middle:
            if place not in skipped:
                for layer in (0, 2, 4):
                    name = f"{half}.{place}.conv.{layer}"
                    shapes |= {f"{name}.weight": (64, 64, 3, 3), f"{name}.bias": (64,)}
    return shapes


def lora(rank: int = 4) -> Shapes:
    start = "diffusion_model.double_blocks.0.img_attn.qkv.lora_"
    return {start + "A.weight": (rank, WIDTH), start + "B.weight": (3 * WIDTH, rank)}


def write(path: Path, shapes: Shapes, dtype: str, seed: int) -> None:
    random = numpy.random.default_rng(seed)
    header, parts, at = {}, [], 0
    for name, shape in sorted(shapes.items()):
        if not shape or name.endswith("scale"):
            values = numpy.full(shape, 0.0 if name == "vae_shift" else 1.0)
        else:
            values = random.standard_normal(shape, "float32") / math.sqrt(math.prod(shape[1:]) if len(shape) > 1 else 400)
        raw = values.astype(dtype).tobytes()
        header[name] = {"dtype": {"float16": "F16", "float32": "F32"}[dtype], "shape": list(shape),
                        "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.writelines([struct.pack("<Q", len(text)), text, *parts])


if __name__ == "__main__":
    models = Path(sys.argv[1])
    kind = sys.argv[2] if len(sys.argv) > 2 else "float16"
    write(models / "diffusion_models/flux.safetensors", flux(), kind, 1)
    write(models / "vae/taesd.safetensors", taesd(), kind, 2)
    write(models / "loras/lora.safetensors", lora(), kind, 3)
