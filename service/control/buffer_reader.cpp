// SPDX-License-Identifier: Apache-2.0
#include "service/control/buffer_reader.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <limits>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "dataplane/base/mailbox.hpp"
#include "dataplane/io/open_reader.hpp"
#include "dataplane/io/pread_reader.hpp"

namespace penstock {
namespace {

struct Cancel {
  std::uint64_t request = 0;
};
struct Drop {
  std::shared_ptr<CheckpointFile> file;
};
struct Stop {};  // Only wakes: `stopped` says it.
using Mail = std::variant<BufferRead, Cancel, Drop, Stop>;

constexpr std::size_t mail_max = 1024;

Outcome<std::unique_ptr<BufferReads>> open_reads(const BufferReaderOptions& options,
                                                 BufferReads::Answer answer) {
  auto ring = PinnedRing::make(options.ring);
  if (!ring) return tl::unexpected(std::move(ring.error()));
  auto reader = open_reader(options.reader, ring->get());
  if (!reader) return tl::unexpected(std::move(reader.error()));
  ReadStream::FallbackMaker fallback;
  if (options.reader.io == ReaderOptions::Io::automatic)
    fallback = [chosen = options.reader] { return PreadReader::open(chosen); };
  auto stream = ReadStream::make(std::move(reader->reader), std::move(fallback), options.stream);
  if (!stream)
    return fail(FailureKind::exhausted,
                fmt::format("no reader for host buffers: {}", stream.error().operation));
  return std::make_unique<BufferReads>(*std::move(ring), *std::move(stream), std::move(answer));
}

int milliseconds_until(std::optional<Nanoseconds> deadline, Nanoseconds now) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(*deadline - now, Nanoseconds(0)));
  return static_cast<int>(std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max()));
}

}  // namespace

struct BufferReader::State {
  State(boost::asio::any_io_executor to, const BufferReaderOptions& chosen,
        std::unique_ptr<Mailbox<Mail>> box)
      : executor(std::move(to)), options(chosen), mail(std::move(box)) {}

  void tell(std::uint64_t request, Outcome<void> outcome);
  void run();
  void serve(BufferReads& reads);

  boost::asio::any_io_executor executor;
  const BufferReaderOptions options;
  std::unique_ptr<Mailbox<Mail>> mail;
  // These two: the executor's thread alone.
  std::unordered_map<std::uint64_t, Answer> answers;
  std::string subject;
  std::mutex
      mutex;  // Held where `stopped` becomes true, and while something is posted: the executor may be gone then.
  std::atomic<bool> stopped{false};
  std::weak_ptr<State> self;
  std::atomic<std::uint64_t> direct_bytes{0}, cached_bytes{0};
};

void BufferReader::State::tell(std::uint64_t request, Outcome<void> outcome) {
  const std::lock_guard lock(mutex);
  if (stopped) return;
  boost::asio::post(executor, [to = self, request, outcome = std::move(outcome)]() mutable {
    const auto state = to.lock();
    if (!state) return;
    auto answer = state->answers.extract(request);
    if (!answer.empty()) answer.mapped()(std::move(outcome));
  });
}

// Without a reader every read is answered with the reason.
void BufferReader::State::run() {
  auto reads = open_reads(
      options, [this](std::uint64_t request, Outcome<void> outcome) { tell(request, std::move(outcome)); });
  if (reads) return serve(**reads);
  spdlog::warn("host buffers can't be read into: {}", reads.error().message);
  std::vector<Mail> taken;
  while (!stopped) {
    pollfd ready{.fd = mail->fd(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    taken.clear();
    mail->drain(taken);
    for (const Mail& one : taken) {
      if (const auto* read = std::get_if<BufferRead>(&one))
        tell(read->request, tl::unexpected<Failure>(reads.error()));
    }
  }
}

void BufferReader::State::serve(BufferReads& reads) {
  std::vector<Mail> taken;
  while (!reads.over()) {
    const Nanoseconds before = monotonic_now();
    pollfd ready[] = {{.fd = mail->fd(), .events = POLLIN, .revents = 0},
                      {.fd = reads.event_fd(), .events = POLLIN, .revents = 0}};
    ::poll(ready, std::size(ready), milliseconds_until(reads.next_deadline(), before));
    taken.clear();
    mail->drain(taken);
    for (Mail& one : taken) {
      if (auto* read = std::get_if<BufferRead>(&one)) reads.start(std::move(*read));
      if (const auto* cancel = std::get_if<Cancel>(&one)) reads.cancel(cancel->request);
      if (const auto* drop = std::get_if<Drop>(&one)) reads.drop(drop->file);
    }
    if (stopped) reads.stop();
    reads.turn(monotonic_now());
    direct_bytes.store(reads.counters().direct_bytes, std::memory_order_relaxed);
    cached_bytes.store(reads.counters().cached_bytes, std::memory_order_relaxed);
  }
}

ReaderOptions reader_options(const ReaderConfig& config) {
  ReaderOptions options;
  switch (config.io) {
    case ReaderIo::automatic: options.io = ReaderOptions::Io::automatic; break;
    case ReaderIo::uring: options.io = ReaderOptions::Io::uring; break;
    case ReaderIo::pread: options.io = ReaderOptions::Io::pread; break;
  }
  return options;
}

BufferReaderOptions buffer_reader_options(const ReaderConfig& config) {
  BufferReaderOptions options;
  options.reader.io = reader_options(config).io;
  options.stream.bandwidth_bytes_per_second = config.bandwidth_bytes;
  return options;
}

BufferReader::BufferReader(boost::asio::any_io_executor executor, const BufferReaderOptions& options) {
  auto mail = Mailbox<Mail>::create(mail_max);
  if (!mail) return;
  state_ = std::make_shared<State>(std::move(executor), options, *std::move(mail));
  state_->self = state_;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] {
    pthread_setname_np(pthread_self(), "penstock-buffer");
    state->run();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BufferReader::~BufferReader() {
  if (!state_) return;
  state_->answers.clear();
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  (void)state_->mail->try_push(Stop{});  // One that is full has woken the thread already.
}

void BufferReader::read(BufferRead read, std::string subject, Answer answer) {
  const std::uint64_t request = read.request;
  if (!state_->mail->try_push(std::move(read)))
    return answer(fail(FailureKind::busy, "too much is to be read into this client's buffers"));
  state_->answers.emplace(request, std::move(answer));
  state_->subject = std::move(subject);
}

// A mailbox that is full takes none: it goes on as if nobody had asked.
void BufferReader::cancel(std::uint64_t request) { (void)state_->mail->try_push(Cancel{request}); }

void BufferReader::drop(std::shared_ptr<CheckpointFile> file) {
  (void)state_->mail->try_push(Drop{std::move(file)});
}

std::uint64_t BufferReader::direct_bytes() const {
  return state_->direct_bytes.load(std::memory_order_relaxed);
}
std::uint64_t BufferReader::cached_bytes() const {
  return state_->cached_bytes.load(std::memory_order_relaxed);
}

Outcome<std::unique_ptr<BufferReader>> BufferReaders::open() {
  if (running().size() >= threads_max) {
    return fail(FailureKind::busy, fmt::format("files are read into the buffers of {} clients", threads_max),
                "read the file yourself");
  }
  auto reader = std::make_unique<BufferReader>(executor_, options_);
  if (!reader->state_)
    return fail(FailureKind::fd_limit, "the service is out of descriptors",
                "raise LimitNOFILE= of the service");
  states_.push_back(reader->state_);
  return reader;
}

std::vector<std::string> BufferReaders::running() {
  std::vector<std::string> subjects;
  std::erase_if(states_, [](const auto& state) { return state.expired(); });
  for (const auto& weak : states_) {
    if (const auto state = weak.lock()) subjects.push_back(state->subject);
  }
  return subjects;
}

}  // namespace penstock
