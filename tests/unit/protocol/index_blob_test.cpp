// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/index_blob.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/support/random.hpp"

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

IndexContent sample() {
  IndexContent content;
  content.format = "safetensors";
  content.files = {{"a-1.safetensors", 1000, 200}, {"a-2.safetensors", 500, 100}};
  content.tensors = {
      {"blocks.0.weight", Dtype::bf16, {4, 100}, Extent{200, 800}, 0},
      {"empty", Dtype::f32, {0}, Extent{100, 0}, 1},
      {"scalar", Dtype::f32, {}, Extent{100, 4}, 1},
      {"naïve", Dtype::f8_e4m3, {2, 3, 66}, Extent{104, 396}, 1},
  };
  content.metadata = {{"format", "pt"}, {"note", "line 1\nline 2"}, {"", ""}};
  return content;
}

// In a heap block of exactly its size, so that AddressSanitizer sees a read behind it.
Result<IndexContent> parse(const Bytes& blob) {
  const auto exact = std::make_unique<std::byte[]>(blob.size());
  std::copy(blob.begin(), blob.end(), exact.get());
  return parse_index_blob(std::span(exact.get(), blob.size()));
}

template <class Wire, class Change>
Bytes changed(const Bytes& blob, std::size_t at, Change change) {
  Bytes bytes = blob;
  Wire wire;
  std::memcpy(&wire, bytes.data() + at, sizeof wire);
  change(wire);
  std::memcpy(bytes.data() + at, &wire, sizeof wire);
  return bytes;
}

TEST(IndexBlob, GivesBackWhatWasBuilt) {
  const IndexContent content = sample();
  const auto blob = build_index_blob(content);
  ASSERT_TRUE(blob) << blob.error().operation;
  const auto parsed = parse(*blob);
  ASSERT_TRUE(parsed) << parsed.error().operation;
  EXPECT_EQ(parsed->format, "safetensors");
  ASSERT_EQ(parsed->files.size(), 2u);
  EXPECT_EQ(parsed->files[1].name, "a-2.safetensors");
  EXPECT_EQ(parsed->files[1].bytes, 500u);
  EXPECT_EQ(parsed->files[1].data_offset, 100u);
  ASSERT_EQ(parsed->tensors.size(), content.tensors.size());
  for (std::size_t i = 0; i < content.tensors.size(); ++i) {
    EXPECT_EQ(parsed->tensors[i].name, content.tensors[i].name);
    EXPECT_EQ(parsed->tensors[i].dtype, content.tensors[i].dtype);
    EXPECT_EQ(parsed->tensors[i].shape, content.tensors[i].shape);
    EXPECT_EQ(parsed->tensors[i].extent, content.tensors[i].extent);
    EXPECT_EQ(parsed->tensors[i].file, content.tensors[i].file);
  }
  EXPECT_EQ(parsed->metadata, content.metadata);
}

TEST(IndexBlob, HoldsACheckpointWithoutTensors) {
  IndexContent content;
  content.format = "safetensors";
  content.files = {{"m", 34, 34}};
  const auto parsed = parse(*build_index_blob(content));
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->tensors.empty());
}

TEST(IndexBlob, ReadsADocumentInALongerMapping) {
  Bytes blob = *build_index_blob(sample());
  blob.resize(blob.size() + 4096);
  EXPECT_TRUE(parse(blob));
}

TEST(IndexBlob, RefusesADocumentCutAnywhere) {
  const Bytes blob = *build_index_blob(sample());
  for (std::size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(parse(Bytes(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size)))) << size;
  }
}

TEST(IndexBlob, RefusesALyingHeader) {
  const Bytes blob = *build_index_blob(sample());
  const auto refuses = [&](auto change) { return !parse(changed<pstw_index_header>(blob, 0, change)); };
  EXPECT_FALSE(refuses([](pstw_index_header&) {}));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.magic = 0; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.version = 2; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.reserved = 1; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.bytes += 8; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.files = 0; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.files = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.tensors = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.tensors += 1; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.dimensions = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.metadata = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.text_bytes = UINT64_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.text_bytes -= 1; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.format[0] = 0; }));
  EXPECT_TRUE(refuses([](pstw_index_header& header) { header.format[15] = 'x'; }));
}

TEST(IndexBlob, RefusesALyingTensor) {
  const Bytes blob = *build_index_blob(sample());
  const std::size_t first = sizeof(pstw_index_header) + 2 * sizeof(pstw_index_file);
  const auto refuses = [&](auto change) { return !parse(changed<pstw_index_tensor>(blob, first, change)); };
  EXPECT_FALSE(refuses([](pstw_index_tensor&) {}));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.file = 2; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.offset = 201; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.offset = UINT64_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.bytes = UINT64_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.dtype = dtype_count; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.rank = 65; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.rank = 6; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.first_dimension = 1; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.name.at = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.name.bytes = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.reserved = 1; }));
  EXPECT_TRUE(refuses([](pstw_index_tensor& tensor) { tensor.file = 1; }));
}

TEST(IndexBlob, RefusesTensorsOutOfOrder) {
  const Bytes blob = *build_index_blob(sample());
  const std::size_t second =
      sizeof(pstw_index_header) + 2 * sizeof(pstw_index_file) + sizeof(pstw_index_tensor);
  EXPECT_FALSE(parse(changed<pstw_index_tensor>(blob, second, [](auto& tensor) { tensor.offset = 200; })));
  EXPECT_TRUE(parse(changed<pstw_index_tensor>(blob, second, [](auto& tensor) { tensor.offset = 99; })));
}

// A small document must not unfold into a large one.
TEST(IndexBlob, RefusesToNameOneTextManyTimes) {
  IndexContent content = sample();
  content.metadata = {{"k", std::string(1000, 'x')}, {"k2", "v"}};
  const Bytes blob = *build_index_blob(content);
  const std::size_t last = sizeof(pstw_index_header) + 2 * sizeof(pstw_index_file) +
                           4 * sizeof(pstw_index_tensor) + 6 * sizeof(std::uint64_t) +
                           sizeof(pstw_index_metadata);
  pstw_index_metadata first;
  std::memcpy(&first, blob.data() + last - sizeof first, sizeof first);
  EXPECT_FALSE(
      parse(changed<pstw_index_metadata>(blob, last, [&](auto& entry) { entry.value = first.value; })));
}

TEST(IndexBlob, RefusesToBuildWhatCannotBeRead) {
  IndexContent unsorted = sample();
  std::swap(unsorted.tensors[0], unsorted.tensors[1]);
  EXPECT_EQ(build_index_blob(unsorted).error().code, Errc::invalid);
  IndexContent deep = sample();
  deep.tensors[0].shape.assign(65, 1);
  EXPECT_EQ(build_index_blob(deep).error().code, Errc::invalid);
  IndexContent nameless = sample();
  nameless.format = "";
  EXPECT_EQ(build_index_blob(nameless).error().code, Errc::invalid);
  IndexContent fileless = sample();
  fileless.files.clear();
  EXPECT_EQ(build_index_blob(fileless).error().code, Errc::invalid);
}

TEST(IndexBlob, SurvivesRandomDamage) {
  test::Random random(11);
  const Bytes blob = *build_index_blob(sample());
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = blob;
    const std::uint64_t changes = 1 + random.below(4);
    for (std::uint64_t i = 0; i < changes; ++i)
      bytes[random.below(bytes.size())] = std::byte(random.next() & 0xff);
    if (const auto parsed = parse(bytes)) {
      for (const TensorEntry& tensor : parsed->tensors) {
        EXPECT_LE(tensor.extent.end(), parsed->files[tensor.file].bytes);
      }
    }
  }
}

}  // namespace
}  // namespace penstock
