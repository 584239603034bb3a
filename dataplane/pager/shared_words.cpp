// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/shared_words.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/memfd.hpp"

namespace penstock {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == sizeof(std::uint64_t) && Word::is_always_lock_free);

Result<UniqueFd> create_words(const char* name, std::uint32_t pages) {
  if (pages == 0) return Error{Errc::invalid, EINVAL, "a table without pages"};
  return create_memfd(name, pages * sizeof(Word));
}

}  // namespace

Result<std::shared_ptr<PageWords>> PageWords::create(std::uint32_t pages) {
  UniqueFd fd = TRY(create_words("penstock-page-words", pages));
  const std::uint64_t bytes = pages * sizeof(Word);
  Mapping mapping = TRY(Mapping::shared(fd.get(), bytes, Access::read_write));
  // This mapping goes on writing; nobody gets another writable one.
  TRY(add_seals(fd.get(), F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
  std::shared_ptr<PageWords> words(new PageWords);
  words->fd_ = std::move(fd);
  words->pages_ = pages;
  words->bytes_ = bytes;
  words->words_ = reinterpret_cast<Word*>(mapping.data());
  words->mapping_ = std::move(mapping);
  return words;
}

PageWords::~PageWords() = default;

void PageWords::store(std::uint32_t page, Residency residency, Generation generation) {
  CHECK(page < pages_);
  const std::uint64_t several = words_[page].load(std::memory_order_relaxed) & page_several_bit;
  words_[page].store(make_page_word(residency, generation) | several, std::memory_order_release);
}

void PageWords::set_several(std::uint32_t page, bool several) {
  CHECK(page < pages_);
  const std::uint64_t word = words_[page].load(std::memory_order_relaxed) & ~page_several_bit;
  words_[page].store(word | (several ? page_several_bit : 0), std::memory_order_release);
}

std::uint64_t PageWords::load(std::uint32_t page) const {
  CHECK(page < pages_);
  return words_[page].load(std::memory_order_acquire);
}

Result<std::shared_ptr<PinWords>> PinWords::create(std::uint32_t pages) {
  UniqueFd fd = TRY(create_words("penstock-pin-words", pages));
  const std::uint64_t bytes = pages * sizeof(Word);
  Mapping mapping = TRY(Mapping::shared(fd.get(), bytes, Access::read));
  TRY(add_seals(fd.get(), F_SEAL_SEAL));
  std::shared_ptr<PinWords> words(new PinWords);
  words->fd_ = std::move(fd);
  words->pages_ = pages;
  words->bytes_ = bytes;
  words->words_ = reinterpret_cast<const Word*>(mapping.data());
  words->mapping_ = std::move(mapping);
  return words;
}

PinWords::~PinWords() = default;

std::uint32_t PinWords::count(std::uint32_t page) const {
  CHECK(page < pages_);
  // One copy: the client may write between two reads.
  const std::uint64_t word = words_[page].load(std::memory_order_relaxed);
  if (word >> pin_state_shift != pin_state_mapped) return 0;
  return static_cast<std::uint32_t>(word & pin_count_mask);
}

}  // namespace penstock
