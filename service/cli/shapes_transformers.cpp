// SPDX-License-Identifier: Apache-2.0
// Models that are one stack of transformer blocks, and the small one for tests.
#include "service/cli/shape_builder.hpp"

namespace penstock {
namespace {

void add_flux_ends(ShapeBuilder& out, std::uint64_t width) {
  out.linear("img_in", width, 64);
  out.linear("txt_in", width, 4096);
  for (const auto& [name, in] :
       {std::pair{"time_in", 256u}, std::pair{"vector_in", 768u}, std::pair{"guidance_in", 256u}}) {
    out.linear(std::string(name) + ".in_layer", width, in);
    out.linear(std::string(name) + ".out_layer", width, width);
  }
  out.linear("final_layer.adaLN_modulation.1", 2 * width, width);
  out.linear("final_layer.linear", 64, width);
}

void add_flux_norms(ShapeBuilder& out, const std::string& name) {
  out.tensor(name + "query_norm.scale", {128});
  out.tensor(name + "key_norm.scale", {128});
}

}  // namespace

std::vector<ShapeTensor> flux_dev_fp8_tensors() {
  constexpr std::uint64_t width = 3072;
  ShapeBuilder out(Dtype::f8_e4m3, Dtype::bf16);
  add_flux_ends(out, width);
  for (std::uint64_t block = 0; block < 19; ++block) {
    for (const char* side : {"img_", "txt_"}) {
      const std::string name = numbered("double_blocks", block) + side;
      out.linear(name + "mod.lin", 6 * width, width);
      out.linear(name + "attn.qkv", 3 * width, width);
      out.linear(name + "attn.proj", width, width);
      add_flux_norms(out, name + "attn.norm.");
      out.linear(name + "mlp.0", 4 * width, width);
      out.linear(name + "mlp.2", width, 4 * width);
    }
  }
  for (std::uint64_t block = 0; block < 38; ++block) {
    const std::string name = numbered("single_blocks", block);
    out.linear(name + "linear1", 7 * width, width);
    out.linear(name + "linear2", width, 5 * width);
    out.linear(name + "modulation.lin", 3 * width, width);
    add_flux_norms(out, name + "norm.");
  }
  return out.take();
}

std::vector<ShapeTensor> t5_xxl_tensors() {
  constexpr std::uint64_t width = 4096, inner = 10240, vocabulary = 32128;
  ShapeBuilder out(Dtype::f16, Dtype::f16);
  out.tensor("shared.weight", {vocabulary, width});
  // The published file holds the embedding under both of its names.
  out.tensor("encoder.embed_tokens.weight", {vocabulary, width});
  out.tensor("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", {32, 64});
  for (std::uint64_t block = 0; block < 24; ++block) {
    const std::string name = numbered("encoder.block", block);
    for (const char* part : {"q", "k", "v", "o"}) {
      out.linear(name + "layer.0.SelfAttention." + part, width, width, Bias::none);
    }
    out.tensor(name + "layer.0.layer_norm.weight", {width});
    out.linear(name + "layer.1.DenseReluDense.wi_0", inner, width, Bias::none);
    out.linear(name + "layer.1.DenseReluDense.wi_1", inner, width, Bias::none);
    out.linear(name + "layer.1.DenseReluDense.wo", width, inner, Bias::none);
    out.tensor(name + "layer.1.layer_norm.weight", {width});
  }
  out.tensor("encoder.final_layer_norm.weight", {width});
  return out.take();
}

// What real files have that is easily forgotten: eight-byte and one-byte types, sizes that are no multiple of anything,
// a scalar, an empty tensor, and scales beside fp8 weights.
std::vector<ShapeTensor> tiny_tensors() {
  constexpr std::uint64_t width = 96;
  ShapeBuilder out(Dtype::f16, Dtype::f32);
  out.tensor("embed.position_ids", Dtype::i64, {1, 77});
  out.tensor("embed.weight", Dtype::bf16, {1000, width});
  for (std::uint64_t block = 0; block < 2; ++block) {
    const std::string name = numbered("blocks", block);
    out.linear(name + "attn.qkv", 3 * width, width);
    out.linear(name + "attn.proj", width, width);
    out.norm(name + "norm", width);
    out.tensor(name + "mlp.0.weight", Dtype::f8_e4m3, {4 * width, width});
    out.tensor(name + "mlp.0.scale_weight", {});
    out.tensor(name + "mlp.2.weight", Dtype::f8_e5m2, {width, 4 * width});
    out.tensor(name + "mlp.2.scale_weight", {});
  }
  out.tensor("mask", Dtype::boolean, {7});
  out.tensor("scaled_fp8", Dtype::f8_e4m3, {0});
  out.tensor("table", Dtype::u8, {13, 31});
  out.tensor("window", Dtype::f64, {33});
  return out.take();
}

}  // namespace penstock
