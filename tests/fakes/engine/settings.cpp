// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

// "12", "512MiB", "8 GiB".
std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  while (*end == ' ') ++end;
  const std::string_view unit(end);
  if (end == text) die("%s=%s is no number", name, text);
  if (unit.empty()) return value;
  if (unit == "KiB") return value << 10;
  if (unit == "MiB") return value << 20;
  if (unit == "GiB") return value << 30;
  die("%s=%s: the unit is unknown", name, text);
}

bool flag(const char* name, bool otherwise) { return number(name, otherwise ? 1 : 0) != 0; }

// "6.2" -> 60200000, as hipRuntimeGetVersion counts.
int hip_version(const char* text) {
  char* end = nullptr;
  const long major = std::strtol(text, &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return static_cast<int>(major * 10'000'000 + minor * 100'000);
}

// As the vendors' variables: ordinals of the machine's devices, the list ends at the first that is none.
std::vector<int> visible_devices(const char* name, int devices) {
  std::vector<int> visible;
  const char* text = std::getenv(name);
  if (text == nullptr) {
    for (int device = 0; device < devices; ++device) visible.push_back(device);
    return visible;
  }
  while (*text != 0) {
    char* end = nullptr;
    const long device = std::strtol(text, &end, 10);
    if (end == text || device < 0 || device >= devices) break;
    if (std::find(visible.begin(), visible.end(), device) != visible.end()) break;
    visible.push_back(static_cast<int>(device));
    text = *end == ',' ? end + 1 : end;
  }
  return visible;
}

Quirks quirks_of_hip(int version) {
  Quirks quirks;
  quirks.old_layout = version < 50'300'000;
  quirks.no_sharing = version < 60'200'000;
  quirks.fd_by_pointer = version < 70'100'000;
  quirks.unprotected_unmap = true;
  quirks.keep_until_free = version / 100'000 == 702;
  quirks.deferred_import = version >= 70'000'000;
  quirks.current_device = version >= 70'000'000;
  quirks.coarse_access = true;
  quirks.unmaps_one = version < 70'000'000;
  quirks.dies_on_unknown_address = version < 70'000'000;
  quirks.keeps_last_failure = version >= 70'000'000;
  return quirks;
}

// "+keep_until_free,-deferred_import": on top of the version's own.
void change_quirks(Quirks& quirks, const char* text) {
  if (text == nullptr) return;
  struct Name {
    const char* name;
    bool Quirks::*member;
  };
  constexpr Name names[] = {{"old_layout", &Quirks::old_layout},
                            {"no_sharing", &Quirks::no_sharing},
                            {"fd_by_pointer", &Quirks::fd_by_pointer},
                            {"unprotected_unmap", &Quirks::unprotected_unmap},
                            {"keep_until_free", &Quirks::keep_until_free},
                            {"deferred_import", &Quirks::deferred_import},
                            {"current_device", &Quirks::current_device},
                            {"coarse_access", &Quirks::coarse_access},
                            {"unmaps_one", &Quirks::unmaps_one},
                            {"dies_on_unknown_address", &Quirks::dies_on_unknown_address},
                            {"keeps_last_failure", &Quirks::keeps_last_failure}};
  for (std::string_view rest(text); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto* found = std::find_if(std::begin(names), std::end(names),
                                     [&](const Name& each) { return word.substr(1) == each.name; });
    if (word.empty() || found == std::end(names) || (word[0] != '+' && word[0] != '-')) {
      die("PENSTOCK_FAKE_QUIRKS=%s: each word is + or - and the name of a quirk", text);
    }
    quirks.*(found->member) = word[0] == '+';
  }
}

Settings read_settings() {
  Settings read;
  const bool hip = front_end.vendor == Vendor::hip;
  read.version = front_end.default_version;
  if (hip) {
    if (const char* text = std::getenv("PENSTOCK_FAKE_HIP_VERSION")) read.version = hip_version(text);
    read.quirks = quirks_of_hip(read.version);
    read.no_vmm = read.version < 60'100'000;
  } else {
    read.version = static_cast<int>(number("PENSTOCK_FAKE_CUDA_VERSION", read.version));
    read.no_vmm = read.version < 10'020;
  }
  change_quirks(read.quirks, std::getenv("PENSTOCK_FAKE_QUIRKS"));
  read.devices = static_cast<int>(std::min<std::uint64_t>(number("PENSTOCK_FAKE_DEVICES", 1), max_devices));
  read.visible = visible_devices(hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", read.devices);
  read.device_bytes = number("PENSTOCK_FAKE_DEVICE_BYTES", read.device_bytes);
  if (const char* path = std::getenv("PENSTOCK_FAKE_LEDGER")) read.ledger = path;
  read.granularity_minimum = number("PENSTOCK_FAKE_GRANULARITY", hip ? 4096 : 2 * mebibyte);
  read.granularity_recommended = std::max(read.granularity_minimum, 2 * mebibyte);
  read.context_bytes = number("PENSTOCK_FAKE_CONTEXT_BYTES", 0);
  read.stream_delay_us =
      static_cast<std::uint32_t>(number("PENSTOCK_FAKE_STREAM_DELAY_US", read.stream_delay_us));
  read.give_back_ms = static_cast<std::uint32_t>(number("PENSTOCK_FAKE_GIVE_BACK_MS", 0));
  read.compute_mode = static_cast<int>(number("PENSTOCK_FAKE_COMPUTE_MODE", 0));
  read.stub = flag("PENSTOCK_FAKE_STUB", false);
  read.no_vmm = flag("PENSTOCK_FAKE_NO_VMM", read.no_vmm);
  read.integrated = flag("PENSTOCK_FAKE_INTEGRATED", false);
  read.poison = flag("PENSTOCK_FAKE_POISON", true);
  read.sticky_faults = flag("PENSTOCK_FAKE_STICKY_FAULTS", false);
  read.no_binary = flag("PENSTOCK_FAKE_NO_BINARY", false);
  const char* const callers = std::getenv("PENSTOCK_FAKE_CALLERS");
  read.callers = Callers(callers != nullptr ? callers : service_callers);
  return read;
}

std::mutex mutex;
// Never destroyed: streams' threads may outlive main.
Settings* current = nullptr;

}  // namespace

const Settings& settings() {
  const std::scoped_lock lock(mutex);
  if (current == nullptr) current = std::make_unique<Settings>(read_settings()).release();
  return *current;
}

void read_settings_again() {
  const std::scoped_lock lock(mutex);
  if (current != nullptr) *current = read_settings();
}

}  // namespace penstock::fake
