// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/probes/kernel_programs.hpp"

#include <cstring>

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::test {

std::set<std::uint32_t> programs_named(const char* name) {
  std::set<std::uint32_t> found;
  bpf_attr next{};
  while (::syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &next, sizeof next) == 0) {
    const std::uint32_t id = next.next_id;
    bpf_attr get{};
    get.prog_id = id;
    const UniqueFd fd(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &get, sizeof get)));
    bpf_prog_info info{};
    bpf_attr ask{};
    ask.info.bpf_fd = static_cast<std::uint32_t>(fd.get());
    ask.info.info_len = sizeof info;
    ask.info.info = reinterpret_cast<std::uint64_t>(&info);
    if (fd && ::syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &ask, sizeof ask) == 0) {
      if (std::strncmp(info.name, name, BPF_OBJ_NAME_LEN) == 0) found.insert(id);
    }
    next = {};
    next.start_id = id;
  }
  return found;
}

}  // namespace penstock::test
