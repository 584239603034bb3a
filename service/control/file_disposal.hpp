// SPDX-License-Identifier: Apache-2.0
// FileDisposal: where files end that their last user lets go of.
//
// Closing a file asks its filesystem, and one whose server is gone (FUSE, NFS) keeps whoever closes for as long as it
// likes. Files of such filesystems are closed on threads of the Opener, others where they are let go of.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "service/control/opener.hpp"

namespace penstock {

class FileDisposal : public std::enable_shared_from_this<FileDisposal> {
 public:
  // `opener` is used until stop(), on `executor`'s thread.
  FileDisposal(boost::asio::any_io_executor executor, Opener& opener)
      : executor_(std::move(executor)), opener_(opener) {}

  // CheckpointFile::adopt(), on a thread of the Opener; the file may be let go of on any thread.
  Outcome<std::shared_ptr<CheckpointFile>> adopt(UniqueFd cached, UniqueFd direct);

  // From now on files end where they are let go of. On the executor's thread.
  void stop() { stopped_ = true; }

 private:
  struct Held;
  void let_go(std::shared_ptr<CheckpointFile> file, std::string path);
  void close(const std::shared_ptr<Held>& held);

  boost::asio::any_io_executor executor_;
  Opener& opener_;
  std::atomic<bool> stopped_{false};
  std::vector<std::shared_ptr<Held>> waiting_;  // The Opener had no thread for them. Executor only.
};

}  // namespace penstock
