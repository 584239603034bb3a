// SPDX-License-Identifier: Apache-2.0
// Stable Diffusion XL base 1.0 with the key names of its published single file: the UNet. The other parts are in
// shapes_sdxl_parts.cpp.
#include "service/cli/shapes_sdxl.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t channels[] = {320, 640,
                                      1280};    // By level; each level but the first halves the picture.
constexpr std::uint64_t depths[] = {0, 2, 10};  // Transformer blocks after each residual block of a level.
constexpr std::uint64_t embedding = 1280;       // Of the time step.
constexpr std::uint64_t context = 2048;         // Both text encoders together.

class Unet {
 public:
  explicit Unet(ShapeBuilder& out) : out_(out) {}

  void build() {
    embed(root_ + "time_embed.", channels[0]);
    embed(root_ + "label_emb.0.", 2816);
    build_input();
    residual(root_ + "middle_block.0.", channels[2], channels[2]);
    transformer(root_ + "middle_block.1.", channels[2], depths[2]);
    residual(root_ + "middle_block.2.", channels[2], channels[2]);
    build_output();
    out_.norm(root_ + "out.0", channels[0]);
    out_.conv(root_ + "out.2", 4, channels[0], 3);
  }

 private:
  void embed(const std::string& name, std::uint64_t in) {
    out_.linear(name + "0", embedding, in);
    out_.linear(name + "2", embedding, embedding);
  }

  void build_input() {
    std::uint64_t block = 0, width = channels[0];
    out_.conv(numbered(input_, block++) + "0", width, 4, 3);
    skipped_ = {width};
    for (std::size_t level = 0; level < 3; ++level) {
      for (int repeat = 0; repeat < 2; ++repeat, ++block) {
        residual_and_transformer(numbered(input_, block), width, level);
        width = channels[level];
        skipped_.push_back(width);
      }
      if (level == 2) continue;
      out_.conv(numbered(input_, block++) + "0.op", width, width, 3);
      skipped_.push_back(width);
    }
  }

  void build_output() {
    std::uint64_t block = 0, width = channels[2];
    for (std::size_t level = 3; level-- > 0;) {
      for (int repeat = 0; repeat < 3; ++repeat, ++block) {
        const std::string name = numbered(output_, block);
        residual_and_transformer(name, width + skipped_.back(), level);
        skipped_.pop_back();
        width = channels[level];
        if (level > 0 && repeat == 2) out_.conv(name + "2.conv", width, width, 3);
      }
    }
  }

  void residual_and_transformer(const std::string& name, std::uint64_t in, std::size_t level) {
    residual(name + "0.", in, channels[level]);
    if (depths[level] > 0) transformer(name + "1.", channels[level], depths[level]);
  }

  void residual(const std::string& name, std::uint64_t in, std::uint64_t out) {
    out_.norm(name + "in_layers.0", in);
    out_.conv(name + "in_layers.2", out, in, 3);
    out_.linear(name + "emb_layers.1", out, embedding);
    out_.norm(name + "out_layers.0", out);
    out_.conv(name + "out_layers.3", out, out, 3);
    if (in != out) out_.conv(name + "skip_connection", out, in, 1);
  }

  void attention(const std::string& name, std::uint64_t width, std::uint64_t from) {
    out_.linear(name + "to_q", width, width, Bias::none);
    out_.linear(name + "to_k", width, from, Bias::none);
    out_.linear(name + "to_v", width, from, Bias::none);
    out_.linear(name + "to_out.0", width, width);
  }

  void transformer(const std::string& name, std::uint64_t width, std::uint64_t depth) {
    out_.norm(name + "norm", width);
    out_.linear(name + "proj_in", width, width);
    for (std::uint64_t layer = 0; layer < depth; ++layer) {
      const std::string block = numbered(name + "transformer_blocks", layer);
      attention(block + "attn1.", width, width);
      attention(block + "attn2.", width, context);
      out_.linear(block + "ff.net.0.proj", 8 * width, width);
      out_.linear(block + "ff.net.2", width, 4 * width);
      for (const char* norm : {"norm1", "norm2", "norm3"}) out_.norm(block + norm, width);
    }
    out_.linear(name + "proj_out", width, width);
  }

  ShapeBuilder& out_;
  const std::string root_ = "model.diffusion_model.";
  const std::string input_ = root_ + "input_blocks", output_ = root_ + "output_blocks";
  std::vector<std::uint64_t> skipped_;  // Widths that the way up takes from the way down.
};

}  // namespace

std::vector<ShapeTensor> sdxl_tensors() {
  ShapeBuilder out(Dtype::f16, Dtype::f16);
  add_clip_l(out);
  add_clip_g(out);
  add_sdxl_vae(out);
  Unet(out).build();
  return out.take();
}

}  // namespace penstock
