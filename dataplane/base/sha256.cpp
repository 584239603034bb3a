// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/sha256.hpp"

#include <openssl/evp.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

// The library fails here only when memory is out or when a policy forbids SHA-256: neither can be worked around.
void start(void* context) {
  CHECK(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context), EVP_sha256(), nullptr) == 1);
}

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr);
  start(context_.get());
}

void Sha256::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_.get()), bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  unsigned int length = 0;
  CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_.get()), digest.data(), &length) == 1);
  CHECK(length == digest.size());
  start(context_.get());
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

}  // namespace penstock
