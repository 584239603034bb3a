// SPDX-License-Identifier: Apache-2.0
// Client: tables that are closed. One on a GPU is unmapped once the work on its pages has ended, which nobody waits for.
#include <algorithm>
#include <thread>
#include <utility>

#include "service/client/client.hpp"
#include "service/client/parked_mappers.hpp"

namespace penstock {
namespace {

bool same_content(const TableRecipe& one, const TableRecipe& other) {
  return one.message.kind != TableKind::anonymous && one.device == other.device &&
         one.message.kind == other.message.kind && one.message.layout == other.message.layout &&
         one.message.file == other.message.file && one.manifest == other.manifest &&
         std::equal(one.checkpoints.begin(), one.checkpoints.end(), other.checkpoints.begin(),
                    other.checkpoints.end(), [](const auto& a, const auto& b) { return a->id() == b->id(); });
}

}  // namespace

Outcome<OpenTable*> Client::find(const TableRecipe& recipe) {
  const auto same = [&](const auto& one) { return same_content(one->recipe, recipe); };
  if (const auto open = std::ranges::find_if(tables_, same); open != tables_.end()) return open->get();
  end_closing();
  // The service has the content once a session: what is left of the closed table is taken up again.
  const auto closed = std::ranges::find_if(closing_, [&](const auto& one) {
    return same(one) && !one->table->paging().look([&] { return one->table->gone; });
  });
  if (closed == closing_.end()) return nullptr;
  Table& table = *(*closed)->table;
  if (table.paging().look([&] { return table.any_private(); })) {
    return fail(FailureKind::busy,
                "device work may still use private pages of the table as it was open before",
                "pst_run_revokes gives them up once the work has ended");
  }
  const TableRecipe& before = (*closed)->recipe;
  if (before.message.mode != recipe.message.mode || before.copy_on_write != recipe.copy_on_write) {
    return fail(FailureKind::busy, "the table, as it was open before with other options, is not unmapped yet",
                "pst_run_revokes unmaps it once the work on its pages has ended");
  }
  table.paging().begin_anew(table);
  tables_.push_back(std::move(*closed));
  closing_.erase(closed);
  tables_.back()->users = 0;
  return tables_.back().get();
}

void Client::close(OpenTable& table) {
  end_parked();
  const std::lock_guard lock(opening_);
  if (--table.users == 0) {
    const auto found = std::ranges::find_if(tables_, [&](const auto& one) { return one.get() == &table; });
    closing_.push_back(std::move(*found));
    tables_.erase(found);
  }
  end_closing();
}

void Client::run_closing() {
  end_parked();
  end_copies();
  if (!closing_waits()) return;
  // Who holds it may be waiting for the service. There is another time.
  const std::unique_lock lock(opening_, std::try_to_lock);
  if (lock.owns_lock()) end_closing();
}

void Client::end_closing() {
  std::erase_if(closing_, [&](const auto& one) { return end(*one); });
  closing_waits_.store(!closing_.empty(), std::memory_order_relaxed);
}

bool Client::end(OpenTable& table) {
  Paging& paging = table.table->paging();
  const std::uint64_t epoch = paging.look([&] { return table.table->attachment().epoch; });
  const auto detached = paging.try_detach(*table.table);
  if (detached.ending != Ending::now) return false;
  const std::vector<std::shared_ptr<Checkpoint>> checkpoints = std::move(table.recipe.checkpoints);
  table.table.reset();  // Unmaps all of it.
  if (detached.number) control_.post(epoch, wire::CloseTable{*detached.number});
  for (const auto& checkpoint : checkpoints) {
    if (checkpoint.use_count() == 1)
      control_.post(checkpoint->epoch, wire::CloseCheckpoint{checkpoint->handle});
  }
  return true;
}

void Client::leave_tables() {
  const Nanoseconds deadline = monotonic_now() + patience_at_the_end;
  for (const OpenTables* const tables : {&tables_, &closing_}) {
    for (const auto& one : *tables) {
      Paging& paging = one->table->paging();
      static_cast<void>(paging.detach(*one->table));
      PageMapper& mapper = one->table->mapper();
      if (paging.idle()) mapper.forget_work();
      // Pins count no longer: their pointers are dead from now on.
      Ending ending = mapper.ending(false);
      while (ending == Ending::later && monotonic_now() < deadline) {
        std::this_thread::sleep_for(device_work_interval);
        ending = mapper.ending(false);
      }
      if (ending != Ending::now || !mapper.unmap_all()) park(one->table->take_mapper());
    }
  }
}

}  // namespace penstock
