// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/open_reader.hpp"

#include <fmt/format.h>

#include <utility>

#include "dataplane/io/errno_name.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "dataplane/io/uring_reader.hpp"

namespace penstock {
namespace {

void append(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += "; ";
  text += more;
}

// What keeps the ring from being locked in huge pages, with one advice for all that a low limit causes.
void explain_ring(ReaderReport& report, const PinnedRing& ring, bool limited) {
  if (ring.huge_bytes() < ring.bytes()) {
    append(report.reason,
           fmt::format("staging memory is not all in huge pages ({})", errno_name(ring.huge_errno())));
  }
  if (!report.locked) {
    append(report.reason, fmt::format("staging memory is not locked ({})", errno_name(ring.lock_errno())));
  }
  if (limited || !report.locked) append(report.reason, locked_memory_advice(ring.bytes()));
}

// `limited`: the ring was to be registered, and a limit forbade it.
OpenedReader finish(std::unique_ptr<FileReader> reader, const PinnedRing* ring, bool limited,
                    std::string reason) {
  const bool registered = reader->backend() == "uring";
  ReaderReport report{.backend = std::string(reader->backend()),
                      .reason = std::move(reason),
                      .registered = registered,
                      .ring_bytes = ring != nullptr ? ring->bytes() : 0,
                      .huge_bytes = ring != nullptr ? ring->huge_bytes() : 0,
                      .locked = ring != nullptr && (registered || ring->locked())};
  if (ring != nullptr) explain_ring(report, *ring, limited);
  return OpenedReader{.reader = std::move(reader), .report = std::move(report)};
}

}  // namespace

Outcome<OpenedReader> open_reader(const ReaderOptions& options, const PinnedRing* ring) {
  std::string reason;
  if (options.io != ReaderOptions::Io::pread) {
    auto uring = UringReader::open(options, ring);
    const bool limited = !uring && options.register_buffers && uring.error().kind == FailureKind::exhausted;
    if (limited) {
      reason = uring.error().message;
      ReaderOptions unregistered = options;
      unregistered.register_buffers = false;
      uring = UringReader::open(unregistered, ring);
    }
    if (uring) return finish(*std::move(uring), ring, limited, std::move(reason));
    if (options.io == ReaderOptions::Io::uring) return tl::unexpected(uring.error());
    reason = uring.error().message + "; reading with threads instead";
  }
  auto pread = PreadReader::open(options);
  if (!pread) return tl::unexpected(pread.error());
  return finish(*std::move(pread), ring, false, std::move(reason));
}

}  // namespace penstock
