// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/driver_code.hpp"

#include <algorithm>
#include <array>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

struct Known {
  std::int32_t native;
  DriverClass meaning;
  std::string_view name;
};

// Sorted by number. What is not listed is `rejected` below 700 and `context_dead` from there to 799.
constexpr std::array known{
    Known{0, DriverClass::done, "success"},
    Known{1, DriverClass::rejected, "invalid_value"},
    Known{2, DriverClass::pressure, "out_of_memory"},
    Known{3, DriverClass::device_dead, "not_initialized"},
    Known{4, DriverClass::device_dead, "deinitialized"},
    Known{34, DriverClass::absent, "stub_library"},
    Known{35, DriverClass::skew, "insufficient_driver"},
    Known{46, DriverClass::device_dead, "device_unavailable"},
    Known{100, DriverClass::absent, "no_device"},
    Known{101, DriverClass::rejected, "invalid_device"},
    Known{200, DriverClass::rejected, "invalid_image"},
    Known{201, DriverClass::context_dead, "invalid_context"},
    Known{209, DriverClass::absent, "no_binary_for_gpu"},
    Known{214, DriverClass::context_dead, "ecc_uncorrectable"},
    Known{218, DriverClass::rejected, "invalid_ptx"},
    Known{220, DriverClass::context_dead, "nvlink_uncorrectable"},
    Known{221, DriverClass::absent, "jit_compiler_not_found"},
    Known{222, DriverClass::absent, "unsupported_ptx_version"},
    Known{226, DriverClass::context_dead, "contained"},
    Known{302, DriverClass::rejected, "shared_object_symbol_not_found"},
    Known{303, DriverClass::rejected, "shared_object_init_failed"},
    Known{304, DriverClass::rejected, "operating_system"},
    Known{400, DriverClass::rejected, "invalid_handle"},
    Known{401, DriverClass::rejected, "illegal_state"},
    Known{500, DriverClass::rejected, "not_found"},
    Known{600, DriverClass::not_ready, "not_ready"},
    Known{700, DriverClass::context_dead, "illegal_address"},
    Known{701, DriverClass::pressure, "launch_out_of_resources"},
    Known{702, DriverClass::context_dead, "launch_timeout"},
    Known{703, DriverClass::rejected, "launch_incompatible_texturing"},
    Known{709, DriverClass::context_dead, "context_is_destroyed"},
    Known{712, DriverClass::rejected, "host_memory_already_registered"},
    Known{713, DriverClass::rejected, "host_memory_not_registered"},
    Known{719, DriverClass::context_dead, "launch_failed"},
    Known{800, DriverClass::rejected, "not_permitted"},
    Known{801, DriverClass::absent, "not_supported"},
    Known{802, DriverClass::absent, "system_not_ready"},
    Known{803, DriverClass::skew, "system_driver_mismatch"},
    Known{804, DriverClass::skew, "compat_not_supported_on_device"},
    Known{805, DriverClass::context_dead, "mps_connection_failed"},
    Known{806, DriverClass::context_dead, "mps_rpc_failure"},
    Known{807, DriverClass::context_dead, "mps_server_not_ready"},
    Known{808, DriverClass::context_dead, "mps_max_clients_reached"},
    Known{809, DriverClass::context_dead, "mps_max_connections_reached"},
    Known{810, DriverClass::context_dead, "mps_client_terminated"},
    Known{999, DriverClass::rejected, "unknown"},
};
static_assert(std::ranges::is_sorted(known, {}, &Known::native));

const Known* find(std::int32_t native) {
  const auto found = std::ranges::lower_bound(known, native, {}, &Known::native);
  return found != known.end() && found->native == native ? &*found : nullptr;
}

}  // namespace

DriverClass classify(std::int32_t native) {
  if (const Known* code = find(native)) return code->meaning;
  return native >= 700 && native < 800 ? DriverClass::context_dead : DriverClass::rejected;
}

Error to_error(DriverCode code) {
  CHECK(!code.ok());
  switch (classify(code)) {
    case DriverClass::pressure: return {Errc::exhausted, code.native, code.call};
    case DriverClass::not_ready: return {Errc::busy, code.native, code.call};
    case DriverClass::absent: return {Errc::unsupported, code.native, code.call};
    case DriverClass::rejected: return {Errc::denied, code.native, code.call};
    case DriverClass::done:
    case DriverClass::skew:
    case DriverClass::context_dead:
    case DriverClass::device_dead: break;
  }
  return {Errc::device, code.native, code.call};
}

std::string_view driver_code_name(std::int32_t native) {
  const Known* code = find(native);
  return code != nullptr ? code->name : "unlisted";
}

}  // namespace penstock
