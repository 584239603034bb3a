// SPDX-License-Identifier: Apache-2.0
// What the sessions share: the parts of the service thread, put together once by Service. Service thread only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "dataplane/device/usage/usage_stats.hpp"
#include "dataplane/io/open_reader.hpp"
#include "service/config/config.hpp"
#include "service/control/admission_desk.hpp"
#include "service/control/buffer_reader.hpp"
#include "service/control/checkpoint_registry.hpp"
#include "service/control/decision_log.hpp"
#include "service/control/device_link.hpp"
#include "service/control/host_buffers.hpp"
#include "service/control/kernel_watch.hpp"
#include "service/control/opener.hpp"
#include "service/control/protection_report.hpp"
#include "service/control/table_registry.hpp"
#include "service/policy/copy_ledger.hpp"
#include "service/policy/stats.hpp"

namespace penstock {

class Session;

struct ServiceState {
  ServiceState(boost::asio::io_context& io, const Config& settings)
      : context(io),
        config(settings),
        opener(io.get_executor(), {}),
        disposal(std::make_shared<FileDisposal>(io.get_executor(), opener)),
        checkpoints(opener, disposal),
        buffer_readers(io.get_executor(), buffer_reader_options(settings.reader)) {}

  boost::asio::io_context& context;
  const Config& config;
  Opener opener;
  std::shared_ptr<FileDisposal> disposal;
  CheckpointRegistry checkpoints;
  TableRegistry tables;
  std::vector<std::unique_ptr<DeviceLink>> devices;        // A client names one by its position.
  std::vector<std::unique_ptr<AdmissionDesk>> admissions;  // One a device, same positions.
  std::vector<std::optional<GpuUsageStats>> usage;         // Of GPUs, by UsageFeed; same positions.
  std::unique_ptr<HostBuffers> host_buffers;
  CopyLedger copies;  // Of GPUs that are no devices.
  BufferReaders buffer_readers;
  DecisionLog decisions;
  std::array<std::uint64_t, session_outcomes> sessions_ended{};  // By SessionOutcome.
  std::map<SessionId, std::shared_ptr<Session>> sessions;
  std::optional<GovernorFigures> pressure;  // By Governor.
  KernelWatch* kernel = nullptr;  // Outlives the service. Null: nothing of the kernel's side is known.
  ReaderReport reader;
  std::optional<ProtectionReport> protection;
  std::string metrics_address;  // Where /metrics really is; empty when off.
  bool closing = false;
  Nanoseconds unlinked_seen_at{};  // The last snapshot that drop_unlinked looked at.

  void decide(std::string_view kind, std::string subject, std::uint64_t bytes, std::string_view reason,
              std::vector<std::pair<std::string_view, std::uint64_t>> inputs);
  void session_ended(FailureKind reason);
  // The last of the kernel's side; null while there is none.
  std::shared_ptr<const KernelStats> kernel_stats() const {
    return kernel != nullptr ? kernel->stats() : nullptr;
  }
  // Of a checkpoint's bytes those that lie in a place, as last measured; nullopt where nobody does. `kernel` may be null.
  std::uint64_t device_bytes(const Checkpoint& checkpoint) const;  // Looks at all page words.
  std::optional<std::uint64_t> locked_host_bytes(const Checkpoint& checkpoint) const;
  static std::optional<std::uint64_t> page_cache_bytes(const Checkpoint& checkpoint,
                                                       const KernelStats* kernel);
  // A snapshot for the exporters.
  ServiceStats stats() const;
  // Evicts nothing; closes tables and entries of checkpoints that nobody will ask for again.
  void drop_idle();
  // The same for those whose files were unlinked, as the last snapshot of the kernel's side says.
  void drop_unlinked();
};

}  // namespace penstock
