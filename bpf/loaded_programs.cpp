// SPDX-License-Identifier: Apache-2.0
#include "bpf/loaded_programs.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "probes.skel.h"

namespace penstock {
namespace {

// libbpf tells in its warnings alone which step failed. Set while this thread loads.
thread_local bool map_was_refused = false;

int listen_to_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  char line[512];
  std::vsnprintf(line, sizeof line, format, arguments);
  if (std::strstr(line, "map '") != nullptr && std::strstr(line, "failed to create") != nullptr) {
    map_was_refused = true;
  }
  return 0;
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Refusal refused(const char* step) { return {step, errno != 0 ? errno : EINVAL}; }

}  // namespace

Refusal LoadedPrograms::open(std::span<const Alternative* const, penstock::probes> chosen,
                             const ProgramOptions& options, std::unique_ptr<LoadedPrograms>& result) {
  ::libbpf_set_print(listen_to_libbpf);
  std::unique_ptr<LoadedPrograms> made(new LoadedPrograms());
  made->skeleton_ = probes__open();
  if (made->skeleton_ == nullptr) return refused("open the object");
  std::ranges::copy(chosen, made->chosen_.begin());
  made->skeleton_->rodata->long_reclaim_ns = static_cast<std::uint64_t>(options.long_reclaim.count());
  made->skeleton_->rodata->page_shift =
      static_cast<std::uint32_t>(std::countr_zero(static_cast<unsigned long>(::sysconf(_SC_PAGESIZE))));
  CHECK(::bpf_map__set_max_entries(made->skeleton_->maps.hints, options.hint_ring_bytes) == 0);
  for (const Alternative* alternative : chosen) {
    if (alternative == nullptr) continue;
    for (const char* name : alternative->programs) {
      CHECK(::bpf_program__set_autoload(made->program(name), true) == 0);
    }
  }
  map_was_refused = false;
  if (const int error = probes__load(made->skeleton_); error != 0) {
    return {map_was_refused ? "map create" : "program load", -error};
  }
  result = std::move(made);
  return {};
}

LoadedPrograms::~LoadedPrograms() {
  if (ring_ != nullptr) ::ring_buffer__free(ring_);
  for (const Link& link : links_) ::bpf_link__destroy(link.link);
  if (skeleton_ != nullptr) probes__destroy(skeleton_);
}

bpf_program* LoadedPrograms::program(const char* name) const {
  bpf_program* const found = ::bpf_object__find_program_by_name(skeleton_->obj, name);
  CHECK(found != nullptr);
  return found;
}

Refusal LoadedPrograms::attach(Probe probe) {
  const Alternative* const alternative = chosen_[static_cast<std::size_t>(probe)];
  CHECK(alternative != nullptr);
  for (const char* name : alternative->programs) {
    const Refusal refusal = attach_program(probe, program(name));
    if (refusal.step == nullptr) continue;
    detach(probe);
    return refusal;
  }
  attached_ |= 1u << static_cast<unsigned>(probe);
  return {};
}

Refusal LoadedPrograms::attach_program(Probe probe, bpf_program* program) {
  const bpf_prog_type type = ::bpf_program__type(program);
  if (type == BPF_PROG_TYPE_PERF_EVENT) return attach_to_faults(probe, program);
  // Iterators are attached for each question.
  if (::bpf_program__expected_attach_type(program) == BPF_TRACE_ITER) return {};
  bpf_link* const link = ::bpf_program__attach(program);
  if (link == nullptr) return refused("attach");
  links_.push_back({probe, link});
  return {};
}

// One event a processor. One that comes online later is not watched.
Refusal LoadedPrograms::attach_to_faults(Probe probe, bpf_program* program) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_PAGE_FAULTS_MAJ;
  attributes.sample_period = 1;
  const long processors = ::sysconf(_SC_NPROCESSORS_CONF);
  for (int processor = 0; processor < processors; ++processor) {
    UniqueFd event(static_cast<int>(
        ::syscall(SYS_perf_event_open, &attributes, -1, processor, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!event && errno == ENODEV) continue;  // It is offline.
    if (!event) return refused("perf event");
    bpf_link* const link = ::bpf_program__attach_perf_event(program, event.get());
    if (link == nullptr) return refused("attach to the perf event");
    event.release();
    links_.push_back({probe, link});
  }
  return {};
}

void LoadedPrograms::detach(Probe probe) {
  for (const Link& link : links_) {
    if (link.probe == probe) ::bpf_link__destroy(link.link);
  }
  std::erase_if(links_, [&](const Link& link) { return link.probe == probe; });
}

Refusal LoadedPrograms::share() {
  const auto share = [](const bpf_map* map, std::uint64_t bytes, Mapping& into) {
    Result<Mapping> mapping = Mapping::shared(::bpf_map__fd(map), whole_pages(bytes), Access::read_write);
    if (!mapping) return Refusal{"map share", mapping.error().native};
    into = *std::move(mapping);
    return Refusal{};
  };
  Refusal refusal = share(skeleton_->maps.files, PST_FILES_MAX * sizeof(pst_file), files_);
  if (refusal.step == nullptr) {
    refusal = share(skeleton_->maps.extents, PST_EXTENTS_MAX * sizeof(pst_extent), extents_);
  }
  if (refusal.step == nullptr) refusal = share(skeleton_->maps.machine, sizeof(pst_machine), machine_);
  if (refusal.step != nullptr) return refusal;
  const pst_cgroup none{};
  const std::uint64_t others = 0;
  if (::bpf_map_update_elem(::bpf_map__fd(skeleton_->maps.cgroups), &others, &none, BPF_ANY) != 0) {
    return refused("map write");
  }
  const auto take = [](void* self, void* record, std::size_t size) {
    auto* const programs = static_cast<LoadedPrograms*>(self);
    if (size >= sizeof(pst_hint)) (*programs->take_)(*static_cast<const pst_hint*>(record));
    return 0;
  };
  ring_ = ::ring_buffer__new(::bpf_map__fd(skeleton_->maps.hints), take, this, nullptr);
  return ring_ == nullptr ? refused("ring share") : Refusal{};
}

std::uint64_t LoadedPrograms::missed(Probe probe) const {
  const Alternative* const alternative = chosen_[static_cast<std::size_t>(probe)];
  if (alternative == nullptr || !attached(probe)) return 0;
  std::uint64_t sum = 0;
  for (const char* name : alternative->programs) {
    bpf_prog_info info{};
    std::uint32_t bytes = sizeof info;
    if (::bpf_obj_get_info_by_fd(::bpf_program__fd(program(name)), &info, &bytes) == 0) {
      sum += info.recursion_misses;
    }
  }
  return sum;
}

pst_file* LoadedPrograms::files() const { return reinterpret_cast<pst_file*>(files_.data()); }
pst_extent* LoadedPrograms::extents() const { return reinterpret_cast<pst_extent*>(extents_.data()); }
const pst_machine& LoadedPrograms::machine() const {
  return *reinterpret_cast<const pst_machine*>(machine_.data());
}

Result<> LoadedPrograms::add_key(std::uint64_t address_space, const pst_file_key& key) {
  if (::bpf_map_update_elem(::bpf_map__fd(skeleton_->maps.file_keys), &address_space, &key, BPF_ANY) == 0) {
    forget_recent_files();
    return {};
  }
  return Error{errno == E2BIG ? Errc::exhausted : Errc::io, errno, "add a tracked file"};
}

void LoadedPrograms::remove_key(std::uint64_t address_space) {
  ::bpf_map_delete_elem(::bpf_map__fd(skeleton_->maps.file_keys), &address_space);
  forget_recent_files();
}

// A program that runs at this moment may still count for the key that it has: as one that had found it in the map.
void LoadedPrograms::forget_recent_files() {
  std::atomic_ref(skeleton_->data->keys_turn).fetch_add(1, std::memory_order_release);
}

namespace {

// All that an iterator of mappings says, in the order of their addresses. Read beyond its end it begins again somewhere
// before it (seen on 6.18, with answers that take several reads).
Result<std::vector<pst_resolved>> read_resolved(int iterator) {
  std::vector<pst_resolved> all;
  std::array<pst_resolved, 64> part;
  std::size_t held = 0;  // Bytes of a part that is not whole yet.
  while (true) {
    auto* const to = reinterpret_cast<std::byte*>(part.data()) + held;
    const ssize_t got = ::read(iterator, to, sizeof part - held);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return Error{Errc::io, errno, "read the iterator of mappings"};
    if (got == 0) return all;
    held += static_cast<std::size_t>(got);
    const std::size_t whole = held / sizeof(pst_resolved);
    for (std::size_t at = 0; at < whole; ++at) {
      if (!all.empty() && part[at].address <= all.back().address) return all;
      all.push_back(part[at]);
    }
    held -= whole * sizeof(pst_resolved);
    std::memmove(part.data(), part.data() + whole, held);
  }
}

}  // namespace

Result<std::vector<pst_resolved>> LoadedPrograms::resolve(std::uint64_t address) {
  skeleton_->bss->wanted_address = address;
  bpf_iter_link_info info{};
  // The thread that the process began with: all have the same mappings.
  info.task.tid = static_cast<std::uint32_t>(::getpid());
  bpf_iter_attach_opts options{};
  options.sz = sizeof options;
  options.link_info = &info;
  options.link_info_len = sizeof info;
  bpf_link* const link = ::bpf_program__attach_iter(skeleton_->progs.resolve_mapping, &options);
  if (link == nullptr) return Error{Errc::io, errno, "attach the iterator of mappings"};
  const UniqueFd answers(::bpf_iter_create(::bpf_link__fd(link)));
  const int create_error = errno;
  ::bpf_link__destroy(link);  // The descriptor keeps what it needs.
  if (!answers) return Error{Errc::io, create_error, "create the iterator of mappings"};
  return read_resolved(answers.get());
}

namespace {

std::vector<std::pair<std::uint64_t, pst_cgroup>> walk_cgroups(int map) {
  std::vector<std::pair<std::uint64_t, pst_cgroup>> all;
  std::uint64_t id = 0;
  const std::uint64_t* before = nullptr;
  // Bounded: one that is removed meanwhile makes the walk start again.
  for (int step = 0; step < 2 * PST_CGROUPS_MAX; ++step) {
    std::uint64_t next = 0;
    if (::bpf_map_get_next_key(map, before, &next) != 0) break;
    pst_cgroup counters{};
    if (::bpf_map_lookup_elem(map, &next, &counters) == 0) all.emplace_back(next, counters);
    id = next;
    before = &id;
  }
  std::ranges::sort(all, {}, &std::pair<std::uint64_t, pst_cgroup>::first);
  const auto same_id = [](const auto& a, const auto& b) { return a.first == b.first; };
  all.erase(std::unique(all.begin(), all.end(), same_id), all.end());
  return all;
}

}  // namespace

// What a cgroup that is removed meanwhile has counted moves to key 0: seen in both places, or in none, it would make the
// sums jump.
std::vector<std::pair<std::uint64_t, pst_cgroup>> LoadedPrograms::cgroups() const {
  const int map = ::bpf_map__fd(skeleton_->maps.cgroups);
  const auto removed = [map] {
    pst_cgroup counters{};
    const std::uint64_t key = 0;
    ::bpf_map_lookup_elem(map, &key, &counters);
    return counters;
  };
  std::vector<std::pair<std::uint64_t, pst_cgroup>> all;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const pst_cgroup before = removed();
    all = walk_cgroups(map);
    const pst_cgroup after = removed();
    if (std::memcmp(&before, &after, sizeof before) == 0) break;
  }
  return all;
}

int LoadedPrograms::hint_fd() const { return ::ring_buffer__epoll_fd(ring_); }

void LoadedPrograms::consume_hints(const std::function<void(const pst_hint&)>& take) {
  take_ = &take;
  ::ring_buffer__consume(ring_);
  take_ = nullptr;
}

}  // namespace penstock
