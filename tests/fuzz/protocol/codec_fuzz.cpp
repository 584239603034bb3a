// SPDX-License-Identifier: Apache-2.0
// Everything that a peer can send, and the documents that travel in memfds. The first byte chooses the decoder, the
// second one how many descriptors came. What is accepted must be said again in the same way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/check.hpp"
#include "service/protocol/control_codec.hpp"
#include "service/protocol/device_codec.hpp"
#include "service/protocol/index_blob.hpp"
#include "service/protocol/manifest.hpp"

namespace penstock {
namespace {

using Input = std::span<const std::byte>;

// Not the input itself: a failure kind that is unknown here reads as internal.
template <class Decode>
void decode_twice(Input datagram, std::size_t descriptors, Decode decode) {
  const auto first = decode(datagram, descriptors);
  if (!first) return;
  const auto again = wire::encode(first->request, first->message);
  CHECK(again);
  const auto second = decode(*again, descriptors);
  CHECK(second && second->message.index() == first->message.index());
  CHECK(*wire::encode(second->request, second->message) == *again);
}

// Of another protocol nothing is known but the number.
bool is_foreign_hello(Input datagram, std::size_t descriptors) {
  const auto client = wire::decode_client_message(datagram, descriptors);
  const auto service = wire::decode_service_message(datagram, descriptors);
  const auto* const hello = client ? std::get_if<wire::Hello>(&client->message) : nullptr;
  const auto* const reply = service ? std::get_if<wire::HelloReply>(&service->message) : nullptr;
  return (hello != nullptr && hello->protocol != PSTW_PROTOCOL) ||
         (reply != nullptr && reply->protocol != PSTW_PROTOCOL);
}

void read_device_message(Input datagram, std::size_t descriptors) {
  const auto message = wire::decode_device_message(datagram, descriptors);
  if (!message) return;
  if (const auto* grants = std::get_if<wire::GrantBatch>(&*message)) {
    CHECK(grants->size() == descriptors);
    for (std::size_t i = 0; i < grants->size(); ++i) CHECK((*grants)[i].table != 0);
  }
}

void read_index(Input blob) {
  const auto content = parse_index_blob(blob);
  if (!content) return;
  const auto again = build_index_blob(*content);
  CHECK(again);
  const auto second = parse_index_blob(*again);
  CHECK(second && second->tensors.size() == content->tensors.size());
}

void read_manifest(Input bytes) {
  const auto manifest = parse_manifest(bytes);
  if (!manifest) return;
  const auto again = build_manifest(*manifest);
  CHECK(again && std::equal(again->begin(), again->end(), bytes.begin(), bytes.end()));
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  if (size < 2) return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(2);
  const std::size_t descriptors = data[1];
  switch (data[0] % 6) {
    case 0:
      if (!is_foreign_hello(input, descriptors))
        decode_twice(input, descriptors, wire::decode_client_message);
      break;
    case 1:
      if (!is_foreign_hello(input, descriptors))
        decode_twice(input, descriptors, wire::decode_service_message);
      break;
    case 2: {
      const auto message = wire::decode_peer_message(input);
      if (!message) break;
      const pstw_device_message again = wire::to_wire(message->message, message->acknowledges);
      CHECK(wire::decode_peer_message(std::as_bytes(std::span(&again, 1))));
      break;
    }
    case 3: read_device_message(input, descriptors); break;
    case 4: read_index(input); break;
    default: read_manifest(input);
  }
  return 0;
}
