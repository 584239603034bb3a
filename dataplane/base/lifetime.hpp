// SPDX-License-Identifier: Apache-2.0
// Lifetime: tells a handler that waits in a queue whether the object that it belongs to is still there.
//
// Cancelling a timer or closing a descriptor doesn't recall a handler whose time has come: it is called with success, also
// after its object is gone. One thread.
#pragma once

#include <memory>

namespace penstock {

class Lifetime {
 public:
  class Watch {
   public:
    bool over() const { return token_.expired(); }

   private:
    friend class Lifetime;
    explicit Watch(std::weak_ptr<const char> token) : token_(std::move(token)) {}
    std::weak_ptr<const char> token_;
  };

  Lifetime() = default;
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;
  Watch watch() const { return Watch(token_); }

 private:
  const std::shared_ptr<const char> token_ = std::make_shared<const char>();
};

}  // namespace penstock
