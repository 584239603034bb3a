// SPDX-License-Identifier: Apache-2.0
// Strong integer ids. An id is never reused while the process lives, except FrameId, SlotId and
// SourceId, which name places in pools.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace penstock {

enum class SessionId : std::uint32_t {};  // One connected client.
enum class TableId : std::uint32_t {};    // One page table on one device.
enum class TableNumber : std::uint32_t {
};  // What one session calls a table that it opened: one number an opening.
enum class FrameId : std::uint32_t {};   // Physical memory behind a page; meaning belongs to one FrameOwner.
enum class SlotId : std::uint16_t {};    // One unit of the pinned staging ring.
enum class SourceId : std::uint32_t {};  // Memory that a FrameWriter copies from; 0 is the staging ring.
enum class FileId : std::uint32_t {};    // An open checkpoint file inside one FileReader.
enum class Ticket : std::uint64_t {};    // A request inside the core; the pager shell numbers them.
enum class FenceId : std::uint64_t {};   // Increases; a reached fence implies all earlier ones.
enum class Generation : std::uint64_t {};  // Which physical incarnation of a page; 0 = never resident.

inline constexpr SlotId no_slot{0xffff};

template <class Id>
constexpr auto raw(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

// A page of a table. `index` counts frames-sized positions from 0.
struct PageKey {
  TableId table{};
  std::uint32_t index = 0;
  friend auto operator<=>(const PageKey&, const PageKey&) = default;
};

}  // namespace penstock

template <>
struct std::hash<penstock::PageKey> {
  std::size_t operator()(const penstock::PageKey& key) const noexcept {
    return (static_cast<std::size_t>(penstock::raw(key.table)) << 32 | key.index) * 0x9e3779b97f4a7c15ull;
  }
};
