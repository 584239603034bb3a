// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/vm/guest_cgroup.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/cgroup_text.hpp"
#include "bpf/text_file.hpp"
#include "dataplane/base/check.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/in_child.hpp"

namespace penstock::test {
namespace {

const std::string root = "/sys/fs/cgroup";

bool write_to(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

GuestCgroup::GuestCgroup(const std::string& name, const GuestCgroup* parent) {
  const std::string& above = parent != nullptr ? parent->path_ : root;
  CHECK(write_to(above + "/cgroup.subtree_control", "+memory"));
  path_ = above + "/" + name;
  CHECK(::mkdir(path_.c_str(), 0755) == 0);
  directory_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(directory_);
}

GuestCgroup::~GuestCgroup() {
  // What was killed in there may take a while to go.
  (void)eventually([&] { return ::rmdir(path_.c_str()) == 0; });
}

void GuestCgroup::write(const std::string& file, const std::string& text) const {
  CHECK(try_write(file, text));
}

bool GuestCgroup::try_write(const std::string& file, const std::string& text) const {
  return write_to(path_ + "/" + file, text);
}

std::uint64_t GuestCgroup::figure(const std::string& file, const std::string& key) const {
  const auto text = read_text(directory_.get(), file.c_str());
  CHECK(text);
  const auto value = stat_value(*text, key);
  CHECK(value);
  return *value;
}

std::string GuestCgroup::run(const std::function<std::string()>& body) const {
  return in_child([&] {
    enter();
    return body();
  });
}

void GuestCgroup::leave() { CHECK(write_to(root + "/cgroup.procs", "0")); }

}  // namespace penstock::test
