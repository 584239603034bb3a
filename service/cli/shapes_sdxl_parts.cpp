// SPDX-License-Identifier: Apache-2.0
#include "service/cli/shapes_sdxl.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t vocabulary = 49408, positions = 77;

class Vae {
 public:
  explicit Vae(ShapeBuilder& out) : out_(out) {}

  void encoder(const std::string& name) {
    out_.conv(name + "conv_in", widths[0], 3, 3);
    std::uint64_t width = widths[0];
    for (std::size_t level = 0; level < 4; ++level) {
      const std::string down = numbered(name + "down", level);
      for (std::uint64_t block = 0; block < 2; ++block) {
        residual(numbered(down + "block", block), width, widths[level]);
        width = widths[level];
      }
      if (level < 3) out_.conv(down + "downsample.conv", width, width, 3);
    }
    middle(name);
    out_.norm(name + "norm_out", width);
    out_.conv(name + "conv_out", 8, width, 3);
  }

  void decoder(const std::string& name) {
    std::uint64_t width = widths[3];
    out_.conv(name + "conv_in", width, 4, 3);
    middle(name);
    for (std::size_t level = 4; level-- > 0;) {
      const std::string up = numbered(name + "up", level);
      for (std::uint64_t block = 0; block < 3; ++block) {
        residual(numbered(up + "block", block), width, widths[level]);
        width = widths[level];
      }
      if (level > 0) out_.conv(up + "upsample.conv", width, width, 3);
    }
    out_.norm(name + "norm_out", width);
    out_.conv(name + "conv_out", 3, width, 3);
  }

 private:
  static constexpr std::uint64_t widths[] = {128, 256, 512, 512};

  void residual(const std::string& name, std::uint64_t in, std::uint64_t out) {
    out_.norm(name + "norm1", in);
    out_.conv(name + "conv1", out, in, 3);
    out_.norm(name + "norm2", out);
    out_.conv(name + "conv2", out, out, 3);
    if (in != out) out_.conv(name + "nin_shortcut", out, in, 1);
  }

  void middle(const std::string& name) {
    residual(name + "mid.block_1.", widths[3], widths[3]);
    out_.norm(name + "mid.attn_1.norm", widths[3]);
    for (const char* part : {"q", "k", "v", "proj_out"})
      out_.conv(name + "mid.attn_1." + part, widths[3], widths[3], 1);
    residual(name + "mid.block_2.", widths[3], widths[3]);
  }

  ShapeBuilder& out_;
};

}  // namespace

void add_clip_l(ShapeBuilder& out) {
  constexpr std::uint64_t width = 768;
  const std::string root = "conditioner.embedders.0.transformer.text_model.";
  out.tensor(root + "embeddings.position_ids", Dtype::i64, {1, positions});
  out.tensor(root + "embeddings.position_embedding.weight", {positions, width});
  out.tensor(root + "embeddings.token_embedding.weight", {vocabulary, width});
  for (std::uint64_t layer = 0; layer < 12; ++layer) {
    const std::string name = numbered(root + "encoder.layers", layer);
    out.norm(name + "layer_norm1", width);
    out.norm(name + "layer_norm2", width);
    out.linear(name + "mlp.fc1", 4 * width, width);
    out.linear(name + "mlp.fc2", width, 4 * width);
    for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"})
      out.linear(name + "self_attn." + part, width, width);
  }
  out.norm(root + "final_layer_norm", width);
}

void add_clip_g(ShapeBuilder& out) {
  constexpr std::uint64_t width = 1280;
  const std::string root = "conditioner.embedders.1.model.";
  out.tensor(root + "logit_scale", {});
  out.tensor(root + "positional_embedding", {positions, width});
  out.tensor(root + "text_projection", {width, width});
  out.tensor(root + "token_embedding.weight", {vocabulary, width});
  for (std::uint64_t layer = 0; layer < 32; ++layer) {
    const std::string name = numbered(root + "transformer.resblocks", layer);
    out.tensor(name + "attn.in_proj_weight", {3 * width, width});
    out.tensor(name + "attn.in_proj_bias", {3 * width});
    out.linear(name + "attn.out_proj", width, width);
    out.norm(name + "ln_1", width);
    out.norm(name + "ln_2", width);
    out.linear(name + "mlp.c_fc", 4 * width, width);
    out.linear(name + "mlp.c_proj", width, 4 * width);
  }
  out.norm(root + "ln_final", width);
}

void add_sdxl_vae(ShapeBuilder& out) {
  const std::string root = "first_stage_model.";
  Vae vae(out);
  vae.encoder(root + "encoder.");
  vae.decoder(root + "decoder.");
  out.conv(root + "quant_conv", 8, 8, 1);
  out.conv(root + "post_quant_conv", 4, 4, 1);
}

}  // namespace penstock
