// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_btf.hpp"

#include <cerrno>

#include <bpf/btf.h>

namespace penstock {

void KernelBtf::Free::operator()(btf* types) const { btf__free(types); }

Result<KernelBtf> KernelBtf::load() {
  btf* const types = btf__load_vmlinux_btf();
  if (types == nullptr) return Error{Errc::not_found, errno, "load the kernel's BTF"};
  return KernelBtf(types);
}

KernelSymbols KernelBtf::symbols() const {
  return {.first_argument = [this](const std::string& tracepoint) { return first_argument(tracepoint); },
          .has_function =
              [this](const std::string& function) {
                return btf__find_by_name_kind(types_.get(), function.c_str(), BTF_KIND_FUNC) > 0;
              }};
}

// typedef void (*btf_trace_NAME)(void *, FIRST, ...)
std::optional<std::string> KernelBtf::first_argument(const std::string& tracepoint) const {
  const std::int32_t id =
      btf__find_by_name_kind(types_.get(), ("btf_trace_" + tracepoint).c_str(), BTF_KIND_TYPEDEF);
  if (id <= 0) return std::nullopt;
  const btf_type* const pointer =
      btf__type_by_id(types_.get(), btf__type_by_id(types_.get(), static_cast<std::uint32_t>(id))->type);
  if (pointer == nullptr || btf_kind(pointer) != BTF_KIND_PTR) return std::nullopt;
  const btf_type* const function = btf__type_by_id(types_.get(), pointer->type);
  if (function == nullptr || btf_kind(function) != BTF_KIND_FUNC_PROTO) return std::nullopt;
  if (btf_vlen(function) < 2) return std::string();
  return type_name(btf_params(function)[1].type);
}

std::string KernelBtf::type_name(std::uint32_t type) const {
  const btf_type* at = btf__type_by_id(types_.get(), type);
  const auto pass = [&](auto is_kind) {
    while (at != nullptr && is_kind(at)) at = btf__type_by_id(types_.get(), at->type);
  };
  pass([](const btf_type* t) { return btf_kind(t) == BTF_KIND_CONST; });
  if (at != nullptr && btf_kind(at) == BTF_KIND_PTR) return type_name(at->type) + " *";
  const char* const name = at != nullptr ? btf__name_by_offset(types_.get(), at->name_off) : nullptr;
  return name != nullptr ? name : "";
}

}  // namespace penstock
