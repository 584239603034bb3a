// SPDX-License-Identifier: Apache-2.0
// The parts of Stable Diffusion XL beside its UNet.
#pragma once

#include "service/cli/shape_builder.hpp"

namespace penstock {

void add_clip_l(ShapeBuilder& out);    // CLIP ViT-L/14, text side.
void add_clip_g(ShapeBuilder& out);    // OpenCLIP ViT-bigG/14, text side.
void add_sdxl_vae(ShapeBuilder& out);  // Autoencoder, both halves.

}  // namespace penstock
