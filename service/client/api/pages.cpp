// SPDX-License-Identifier: Apache-2.0
// Pages of a table: pins first, because everything else may be slow.
#include <algorithm>

#include <fmt/format.h>

#include "dataplane/device/gpu/driver_code.hpp"
#include "service/client/api/handles.hpp"

namespace penstock {
namespace {

pst_status outside(const pst_table* table, std::uint64_t offset, std::uint64_t bytes) {
  return report(table->owner, Failure{FailureKind::invalid_argument,
                                      fmt::format("{} bytes at {} leave the table of {} bytes", bytes, offset,
                                                  table->table->shape().bytes),
                                      ""});
}

pst_status not_pinned(const pst_table* table) {
  return report(table->owner, Failure{FailureKind::unpinned, "a page of the range is not pinned", ""});
}

pst_status not_noted(const pst_table* table, const Error& error) {
  if (error.code == Errc::invalid && error.native == 0) return report_invalid(table->owner, error.operation);
  return report(
      table->owner,
      Failure{FailureKind::device_unhealthy,
              fmt::format("the stream's work can't be waited for, the pages stay pinned: {} answered {}",
                          error.operation, error.native),
              "is the stream one of this GPU and of the context that is current?"});
}

pst_status not_copied(const pst_table* table, const Error& error) {
  if (error.code == Errc::invalid && error.native == 0) return report_invalid(table->owner, error.operation);
  if (error.code == Errc::busy && error.native == 0)
    return report(table->owner, Failure{FailureKind::busy, error.operation, "copy after the capture"});
  return report(table->owner,
                Failure{FailureKind::device_unhealthy,
                        fmt::format("the bytes can't be copied: {} answered {} ({})", error.operation,
                                    driver_code_name(error.native), error.native),
                        "is a context of this GPU current in this thread? pst_use_device makes one so"});
}

// Pages that are not mapped here, or can't be pinned once more.
[[gnu::noinline]] pst_status fault_slowly(pst_table* handle, PageSpan span, const Table::PinAttempt& attempt,
                                          std::uint64_t timeout_ns) {
  Table& table = *handle->table;
  (void)table.paging().unpin(table, {span.first, attempt.pinned});
  const PinOutcome outcome = table.paging().pin_settled(table, span);
  if (outcome == PinOutcome::done) return PST_DONE;
  if (outcome == PinOutcome::full) {
    return report(handle->owner,
                  Failure{FailureKind::exhausted, "a page has as many pins as can be counted", ""});
  }
  if (timeout_ns == 0)
    return report(handle->owner, Failure{FailureKind::deadline, "the pages are not mapped here", ""});
  return report(handle->owner, handle->owner->client->fault(*handle->open, span, deadline_after(timeout_ns)));
}

// Of a copy on a GPU: nothing leaves it, so that pins are counted alone.
[[gnu::noinline]] pst_status fault_copy(pst_table* handle, PageSpan span, std::uint64_t timeout_ns) {
  TableCopy& copy = *handle->copy;
  if (!copy.ready(span)) {
    if (timeout_ns == 0)
      return report(handle->owner, Failure{FailureKind::deadline, "the pages are not copied yet", ""});
    const auto filled = handle->owner->client->fill(copy, *handle->open, span, deadline_after(timeout_ns));
    if (!filled) return report(handle->owner, filled.error());
  }
  copy.pin(span);
  return PST_DONE;
}

[[gnu::noinline]] pst_status unpin_copy(pst_table* handle, PageSpan span, void* stream) {
  handle->copy->note_work(stream);
  const bool unpinned = handle->copy->unpin(span);
  handle->owner->client->run_closing();
  return unpinned ? PST_DONE : not_pinned(handle);
}

bool is_pinned(const pst_table* table, PageSpan span) {
  return table->copy ? table->copy->pinned(span) : table->table->pinned(span);
}

// Checks of the functions that take a range. PST_DONE: `span` is set.
pst_status check_range(const pst_table* table, std::uint64_t offset, std::uint64_t bytes, PageSpan& span) {
  if (const pst_status status = check_handle(owner_of(table)); status != PST_DONE) return status;
  const auto found = table->table->span_of(offset, bytes);
  if (!found) return outside(table, offset, bytes);
  span = *found;
  return PST_DONE;
}

}  // namespace
}  // namespace penstock

using namespace penstock;

pst_status pst_fault(pst_table* handle, uint64_t offset, uint64_t bytes, uint64_t timeout_ns) {
  if (handle == nullptr) [[unlikely]]
    return report_invalid(nullptr, "a null pointer");
  Table& table = *handle->table;
  if (table.forked()) [[unlikely]]
    return report_forked(handle->owner);
  const auto span = table.span_of(offset, bytes);
  if (!span) [[unlikely]]
    return outside(handle, offset, bytes);
  if (handle->copy) [[unlikely]]
    return fault_copy(handle, *span, timeout_ns);
  if (table.cooperative() && table.paging().idle()) [[unlikely]]
    table.paging().set_idle(false);
  const Table::PinAttempt attempt = table.pin(*span);
  if (attempt.outcome == PinOutcome::done) [[likely]]
    return PST_DONE;
  return fault_slowly(handle, *span, attempt, timeout_ns);
}

pst_status pst_unpin(pst_table* handle, uint64_t offset, uint64_t bytes, void* stream) {
  if (handle == nullptr) [[unlikely]]
    return report_invalid(nullptr, "a null pointer");
  Table& table = *handle->table;
  if (table.forked()) [[unlikely]]
    return report_forked(handle->owner);
  const auto span = table.span_of(offset, bytes);
  if (!span) [[unlikely]]
    return outside(handle, offset, bytes);
  if (handle->copy) [[unlikely]]
    return unpin_copy(handle, *span, stream);
  if (table.cooperative() || stream != nullptr) [[unlikely]] {
    // Before the pins go: a page without a pin and without a note of its work may be unmapped.
    if (const auto noted = table.mapper().note_work(*span, stream); !noted)
      return not_noted(handle, noted.error());
  }
  const bool unpinned = table.paging().unpin(table, *span);
  if (table.cooperative()) [[unlikely]]
    handle->owner->client->run_closing();
  return unpinned ? PST_DONE : not_pinned(handle);
}

pst_status pst_copy_out(pst_table* handle, uint64_t offset, uint64_t bytes, void* to, void* stream) {
  if (handle == nullptr || (to == nullptr && bytes > 0))
    return report_invalid(owner_of(handle), "a null pointer");
  PageSpan span;
  if (const pst_status status = check_range(handle, offset, bytes, span);
      status != PST_DONE || span.count == 0)
    return status;
  if (handle->copy) {
    if (!handle->copy->pinned(span)) return not_pinned(handle);
    const auto copied = handle->copy->copy_out(offset, bytes, to, stream);
    return copied ? PST_DONE : not_copied(handle, copied.error());
  }
  Table& table = *handle->table;
  // With pins of its own, so that a caller without any gets an answer instead of a fault.
  const Table::PinAttempt attempt = table.pin(span);
  if (attempt.outcome != PinOutcome::done) {
    (void)table.paging().unpin(table, {span.first, attempt.pinned});
    if (table.paging().pin_settled(table, span) != PinOutcome::done) return not_pinned(handle);
  }
  const auto copied = table.mapper().copy_out(offset, bytes, to, stream);
  (void)table.paging().unpin(table, span);
  return copied ? PST_DONE : not_copied(handle, copied.error());
}

pst_status pst_prefetch(pst_table* table, uint64_t offset, uint64_t bytes, int wait, uint64_t timeout_ns) {
  PageSpan span;
  if (const pst_status status = check_range(table, offset, bytes, span);
      status != PST_DONE || span.count == 0)
    return status;
  return report(table->owner,
                table->owner->client->prefetch(*table->open, span, wait != 0, deadline_after(timeout_ns)));
}

pst_status pst_prioritize(pst_table* table) {
  if (const pst_status status = check_handle(owner_of(table)); status != PST_DONE) return status;
  table->table->paging().prioritize(*table->table);
  return PST_DONE;
}

pst_status pst_set_cutoff(pst_table* table, uint64_t bytes) {
  if (const pst_status status = check_handle(owner_of(table)); status != PST_DONE) return status;
  const std::uint64_t page_bytes = table->table->shape().page_bytes;
  const std::uint64_t pages = bytes / page_bytes + (bytes % page_bytes != 0 ? 1 : 0);
  table->table->paging().set_cutoff(*table->table,
                                    static_cast<std::uint32_t>(std::min<std::uint64_t>(pages, UINT32_MAX)));
  return PST_DONE;
}

pst_status pst_serials(const pst_table* table, uint64_t offset, uint64_t bytes, uint64_t* serials,
                       size_t capacity, size_t* count) {
  PageSpan span;
  if (const pst_status status = check_range(table, offset, bytes, span); status != PST_DONE) return status;
  if (count == nullptr || (serials == nullptr && capacity > 0))
    return report_invalid(table->owner, "a null pointer");
  *count = span.count;
  if (capacity < span.count)
    return report_invalid(table->owner, "there is not room for the serials of all pages");
  if (table->copy) {
    // It is made once, and not lost.
    for (std::uint32_t i = 0; i < span.count; ++i)
      serials[i] = table->copy->ready({span.first + i, 1}) ? 2 : 0;
    return PST_DONE;
  }
  table->table->paging().look([&] {
    for (std::uint32_t i = 0; i < span.count; ++i) serials[i] = table->table->serial(span.first + i);
  });
  return PST_DONE;
}

pst_status pst_table_wanted(const pst_table* table, uint32_t* pages, size_t capacity, size_t* count) {
  const bool complete = count != nullptr && (pages != nullptr || capacity == 0);
  if (const pst_status status = check_handle(owner_of(table), complete); status != PST_DONE) return status;
  Table& found = *table->table;
  *count = 0;
  if (table->copy) return PST_DONE;  // Nobody asks it back.
  found.paging().look([&] {
    for (std::uint32_t page = 0; page < found.shape().pages; ++page) {
      const std::uint64_t word = found.word(page).load(std::memory_order_relaxed);
      if ((word & PSTW_PIN_WANTED) == 0 || pstw_pin_count(word) == 0) continue;
      if (*count < capacity) pages[*count] = page;
      ++*count;
    }
  });
  return PST_DONE;
}

pst_status pst_make_private(pst_table* table, uint64_t offset, uint64_t bytes, uint64_t timeout_ns) {
  PageSpan span;
  if (const pst_status status = check_range(table, offset, bytes, span);
      status != PST_DONE || span.count == 0)
    return status;
  if (table->table->shape().kind == TableKind::anonymous) return PST_DONE;  // Private from the start.
  if (!is_pinned(table, span)) return not_pinned(table);
  if (table->copy) return PST_DONE;
  return report(table->owner,
                table->owner->client->make_private(*table->open, span, deadline_after(timeout_ns)));
}

pst_status pst_allow_writes(pst_table* table, uint64_t offset, uint64_t bytes) {
  PageSpan span;
  if (const pst_status status = check_range(table, offset, bytes, span); status != PST_DONE) return status;
  if (table->copy)
    return report(table->owner, Failure{FailureKind::unsupported, "copy_on_write is for host memory", ""});
  if (!table->table->pinned(span)) return not_pinned(table);
  return report(table->owner, table->table->paging().look([&] { return table->table->allow_writes(span); }));
}

pst_status pst_end_writes(pst_table* table, uint64_t offset, uint64_t bytes) {
  PageSpan span;
  if (const pst_status status = check_range(table, offset, bytes, span); status != PST_DONE) return status;
  if (table->copy) return not_pinned(table);
  return report(table->owner, table->table->paging().look([&] { return table->table->end_writes(span); }));
}

pst_status pst_table_residency(const pst_table* table, pst_residency* residency) {
  if (const pst_status status = check_handle(owner_of(table), residency != nullptr); status != PST_DONE)
    return status;
  Table& found = *table->table;
  const std::uint64_t page_bytes = found.shape().page_bytes;
  pst_residency out{};
  out.pages = found.shape().pages;
  if (table->copy) {
    for (std::uint32_t page = 0; page < out.pages; ++page) {
      if (table->copy->ready({page, 1})) out.resident_bytes += page_bytes;
      if (table->copy->pinned({page, 1})) out.pinned_bytes += page_bytes;
    }
    out.mapped_bytes = out.alone_bytes = out.resident_bytes;
    out.private_bytes = found.shape().bytes;  // Whole, from the start.
    return copy_out(out, residency) ? PST_DONE : report_invalid(table->owner, "a struct without its size");
  }
  found.paging().look([&] {
    for (std::uint32_t page = 0; page < out.pages; ++page) {
      const std::uint64_t word = found.word(page).load(std::memory_order_relaxed);
      if (found.resident(page)) out.resident_bytes += page_bytes;
      if (pstw_pin_state(word) == PSTW_PIN_MAPPED) out.mapped_bytes += page_bytes;
      if (pstw_pin_count(word) > 0) out.pinned_bytes += page_bytes;
      if (found.is_private(page)) out.private_bytes += page_bytes;
      if (pstw_pin_state(word) == PSTW_PIN_MAPPED && found.is_alone(page)) out.alone_bytes += page_bytes;
    }
  });
  return copy_out(out, residency) ? PST_DONE : report_invalid(table->owner, "a struct without its size");
}

pst_status pst_run_revokes(pst_client* client) {
  if (const pst_status status = check_handle(client); status != PST_DONE) return status;
  for (Paging* const paging : client->client->pagings()) paging->run_revokes();
  client->client->run_closing();
  return PST_DONE;
}

pst_status pst_idle(pst_client* client, int idle) {
  if (const pst_status status = check_handle(client); status != PST_DONE) return status;
  for (Paging* const paging : client->client->pagings()) paging->set_idle(idle != 0);
  if (idle != 0) client->client->forget_copies_work();
  client->client->run_closing();
  return PST_DONE;
}
