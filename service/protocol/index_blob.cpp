// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/index_blob.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "service/protocol/wire_fields.hpp"

namespace penstock {
namespace {

using wire::append;
using wire::copy_at;

Error corrupt(const char* rule) { return Error{Errc::corrupt, 0, rule}; }
Error unfit(const char* rule) { return Error{Errc::invalid, 0, rule}; }

bool comes_before(const pstw_index_tensor& a, const pstw_index_tensor& b) {
  return a.file != b.file ? a.file < b.file : a.offset < b.offset;
}

// Collects texts; positions are 32 bits, since a header is at most 100 MB.
class TextSection {
 public:
  pstw_index_text add(std::string_view text) {
    const pstw_index_text place{static_cast<std::uint32_t>(text_.size()),
                                static_cast<std::uint32_t>(text.size())};
    text_ += text;
    return place;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::uint64_t blob_bytes(const pstw_index_header& header) {
  return sizeof header + header.files * sizeof(pstw_index_file) + header.tensors * sizeof(pstw_index_tensor) +
         header.dimensions * sizeof(std::uint64_t) + header.metadata * sizeof(pstw_index_metadata) +
         header.text_bytes;
}

// Reads one document whose header is sane.
class IndexReader {
 public:
  IndexReader(std::span<const std::byte> blob, const pstw_index_header& header)
      : blob_(blob),
        header_(header),
        tensors_at_(sizeof header + header.files * sizeof(pstw_index_file)),
        dimensions_at_(tensors_at_ + header.tensors * sizeof(pstw_index_tensor)),
        metadata_at_(dimensions_at_ + header.dimensions * sizeof(std::uint64_t)),
        text_at_(metadata_at_ + header.metadata * sizeof(pstw_index_metadata)) {}

  Result<IndexContent> read() {
    IndexContent content;
    content.format = TRY(format());
    for (std::uint32_t i = 0; i < header_.files; ++i) content.files.push_back(TRY(file(i)));
    content.tensors.reserve(header_.tensors);
    pstw_index_tensor previous{};
    for (std::uint32_t i = 0; i < header_.tensors; ++i) {
      const auto record = copy_at<pstw_index_tensor>(blob_, tensors_at_ + i * sizeof(pstw_index_tensor));
      if (i > 0 && comes_before(record, previous)) return corrupt("tensors are not sorted");
      content.tensors.push_back(TRY(tensor(record, content.files)));
      previous = record;
    }
    content.metadata.reserve(header_.metadata);
    for (std::uint32_t i = 0; i < header_.metadata; ++i) {
      const auto record = copy_at<pstw_index_metadata>(blob_, metadata_at_ + i * sizeof(pstw_index_metadata));
      content.metadata.emplace_back(TRY(text(record.key)), TRY(text(record.value)));
    }
    return content;
  }

 private:
  Result<std::string> format() const {
    const std::string_view field(header_.format, sizeof header_.format);
    const std::size_t end = std::min(field.find('\0'), field.size());
    if (field.find_first_not_of('\0', end) != std::string_view::npos) return corrupt("name of a format");
    if (end == 0 || !is_line(field.substr(0, end))) return corrupt("name of a format");
    return std::string(field.substr(0, end));
  }

  // Counts what it hands out, so that a small document can't name one text a million times.
  Result<std::string> text(pstw_index_text place) {
    if (place.at > header_.text_bytes || place.bytes > header_.text_bytes - place.at) {
      return corrupt("a text lies outside");
    }
    named_ += place.bytes;
    if (named_ > header_.text_bytes) return corrupt("a text is named more than once");
    const auto bytes = blob_.subspan(text_at_ + place.at, place.bytes);
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_utf8(text)) return corrupt("a text is not UTF-8");
    return text;
  }

  Result<IndexFile> file(std::uint32_t i) {
    const auto record =
        copy_at<pstw_index_file>(blob_, sizeof(pstw_index_header) + i * sizeof(pstw_index_file));
    if (record.data_offset > record.bytes) return corrupt("header of a file");
    return IndexFile{TRY(text(record.name)), record.bytes, record.data_offset};
  }

  Result<TensorEntry> tensor(const pstw_index_tensor& record, const std::vector<IndexFile>& files) {
    if (record.file >= files.size()) return corrupt("file of a tensor");
    const std::uint64_t end = files[record.file].bytes;
    if (record.offset > end || record.bytes > end - record.offset)
      return corrupt("a tensor lies outside its file");
    if (record.dtype >= dtype_count) return corrupt("dtype of a tensor");
    if (record.rank > PSTW_RANK_MAX || record.reserved != 0) return corrupt("rank of a tensor");
    if (record.first_dimension != dimensions_used_ || record.rank > header_.dimensions - dimensions_used_) {
      return corrupt("shape of a tensor");
    }
    TensorEntry entry;
    entry.name = TRY(text(record.name));
    entry.dtype = static_cast<Dtype>(record.dtype);
    entry.extent = Extent{.offset = record.offset, .length = record.bytes};
    entry.file = record.file;
    entry.shape.reserve(record.rank);
    for (std::uint32_t i = 0; i < record.rank; ++i) {
      const std::uint64_t at = dimensions_at_ + (std::uint64_t{dimensions_used_} + i) * sizeof(std::uint64_t);
      entry.shape.push_back(copy_at<std::uint64_t>(blob_, at));
    }
    dimensions_used_ += record.rank;
    return entry;
  }

  std::span<const std::byte> blob_;
  pstw_index_header header_;
  std::uint64_t tensors_at_, dimensions_at_, metadata_at_, text_at_;
  std::uint32_t dimensions_used_ = 0;
  std::uint64_t named_ = 0;
};

Result<> check_counts(const IndexContent& content) {
  if (content.format.empty() || content.format.size() > PSTW_FORMAT_BYTES_MAX || !is_line(content.format)) {
    return unfit("name of a format");
  }
  if (content.files.empty() || content.files.size() > PSTW_CHECKPOINT_FILES_MAX)
    return unfit("number of files");
  if (content.tensors.size() > PSTW_TENSORS_MAX) return unfit("number of tensors");
  if (content.metadata.size() > PSTW_METADATA_MAX) return unfit("number of metadata entries");
  return {};
}

}  // namespace

Result<std::vector<std::byte>> build_index_blob(const IndexContent& content) {
  TRY(check_counts(content));
  TextSection texts;
  std::vector<std::byte> files, tensors, dimensions, metadata;
  for (const IndexFile& file : content.files) {
    append(files, pstw_index_file{file.bytes, file.data_offset, texts.add(file.name)});
  }
  pstw_index_tensor record{};
  for (const TensorEntry& tensor : content.tensors) {
    if (tensor.shape.size() > PSTW_RANK_MAX) return unfit("rank of a tensor");
    const pstw_index_tensor previous = record;
    record = {};
    record.name = texts.add(tensor.name);
    record.offset = tensor.extent.offset;
    record.bytes = tensor.extent.length;
    record.file = tensor.file;
    record.first_dimension = static_cast<std::uint32_t>(dimensions.size() / sizeof(std::uint64_t));
    record.rank = static_cast<std::uint16_t>(tensor.shape.size());
    record.dtype = static_cast<std::uint16_t>(tensor.dtype);
    if (comes_before(record, previous)) return unfit("tensors are not sorted");
    for (const std::uint64_t dimension : tensor.shape) append(dimensions, dimension);
    append(tensors, record);
  }
  for (const auto& [key, value] : content.metadata) {
    const pstw_index_text key_place = texts.add(key);
    append(metadata, pstw_index_metadata{key_place, texts.add(value)});
  }

  pstw_index_header header{};
  header.magic = PSTW_INDEX_MAGIC;
  header.version = PSTW_BLOB_VERSION;
  header.files = static_cast<std::uint32_t>(content.files.size());
  header.tensors = static_cast<std::uint32_t>(content.tensors.size());
  header.dimensions = static_cast<std::uint32_t>(dimensions.size() / sizeof(std::uint64_t));
  header.metadata = static_cast<std::uint32_t>(content.metadata.size());
  header.text_bytes = texts.text().size();
  std::copy(content.format.begin(), content.format.end(), header.format);
  header.bytes = blob_bytes(header);
  if (header.bytes > PSTW_INDEX_BYTES_MAX) return unfit("size of an index");

  std::vector<std::byte> blob;
  blob.reserve(header.bytes);
  append(blob, header);
  for (const auto* section : {&files, &tensors, &dimensions, &metadata}) {
    blob.insert(blob.end(), section->begin(), section->end());
  }
  const auto text = std::as_bytes(std::span(texts.text()));
  blob.insert(blob.end(), text.begin(), text.end());
  return blob;
}

Result<IndexContent> parse_index_blob(std::span<const std::byte> blob) {
  if (blob.size() < sizeof(pstw_index_header)) return corrupt("an index is too short");
  const auto header = copy_at<pstw_index_header>(blob, 0);
  if (header.magic != PSTW_INDEX_MAGIC) return corrupt("an index has no magic number");
  if (header.version != PSTW_BLOB_VERSION || header.reserved != 0) return corrupt("version of an index");
  const bool counts = header.files != 0 && header.files <= PSTW_CHECKPOINT_FILES_MAX &&
                      header.tensors <= PSTW_TENSORS_MAX && header.metadata <= PSTW_METADATA_MAX &&
                      header.dimensions <= std::uint64_t{header.tensors} * PSTW_RANK_MAX &&
                      header.text_bytes <= PSTW_INDEX_BYTES_MAX;
  if (!counts) return corrupt("counts of an index");
  if (header.bytes != blob_bytes(header) || header.bytes > blob.size()) return corrupt("size of an index");
  return IndexReader(blob.first(header.bytes), header).read();
}

}  // namespace penstock
