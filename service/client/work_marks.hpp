// SPDX-License-Identifier: Apache-2.0
// WorkMark: an event behind work of the program's. It is asked for in the context that it was made in, and may be shared by
// pages of several tables. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "service/client/page_mapper.hpp"
#include "service/client/program_contexts.hpp"

namespace penstock {

class WorkMark;

// Events that are used again. It lives as long as one of its marks does.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<ProgramStreams> streams) : streams_(std::move(streams)) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Behind what is queued on `stream` now. REQUIRES: the context is entered.
  DriverCode record(const std::shared_ptr<DriverContext>& context, StreamHandle stream,
                    std::shared_ptr<WorkMark>& made);

 private:
  friend class WorkMark;
  struct ContextEvent {
    std::shared_ptr<DriverContext> context;
    EventHandle event;
  };
  std::optional<EventHandle> take(const DriverContext& context);
  void give_back(const ContextEvent& event);

  const std::shared_ptr<ProgramStreams> streams_;
  std::mutex mutex_;
  std::vector<ContextEvent> spare_;
};

class WorkMark {
 public:
  WorkMark(std::shared_ptr<EventPool> pool, EventPool::ContextEvent made)
      : pool_(std::move(pool)), made_(std::move(made)) {}
  WorkMark(const WorkMark&) = delete;
  WorkMark& operator=(const WorkMark&) = delete;
  ~WorkMark() { pool_->give_back(made_); }

  // Whether the work has ended. Nobody waits.
  Ending ask();
  // Waits for it. False: that could not be done.
  bool wait();

 private:
  const std::shared_ptr<EventPool> pool_;
  const EventPool::ContextEvent made_;
  std::atomic<bool> reached_ = false;  // It is asked once.
};

// Of a context that is to be entered: the program has ended it, or it is broken. Its work has died with it.
bool is_over(DriverCode code);

}  // namespace penstock
