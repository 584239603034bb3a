// SPDX-License-Identifier: Apache-2.0
// Between control messages as values and their bytes. Decoding believes nothing: sizes, numbers, texts and
// the count of descriptors are checked, and nothing behind the datagram's end is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/result.hpp"
#include "service/protocol/control_messages.hpp"

namespace penstock::wire {

// JSON that fits into a query or its reply; a longer reply travels in a descriptor.
inline constexpr std::size_t inline_json_bytes_max = PSTW_MESSAGE_BYTES_MAX - sizeof(pstw_query_reply);

// How many descriptors go with the message.
std::uint32_t descriptors_of(const ClientMessage& message);
std::uint32_t descriptors_of(const ServiceMessage& message);

// Texts are made to fit: see to_line(). Errc::invalid when a list, a number or JSON doesn't, or when a
// request number is missing (or given to an event).
Result<std::vector<std::byte>> encode(std::uint64_t request, const ClientMessage& message);
Result<std::vector<std::byte>> encode(std::uint64_t request, const ServiceMessage& message);

template <class Message>
struct Decoded {
  std::uint64_t request = 0;
  Message message;
};
// `descriptors`: how many came with the datagram. Errc::protocol with the broken rule as Error::operation.
Result<Decoded<ClientMessage>> decode_client_message(std::span<const std::byte> datagram,
                                                     std::size_t descriptors);
Result<Decoded<ServiceMessage>> decode_service_message(std::span<const std::byte> datagram,
                                                       std::size_t descriptors);

// The request number of a datagram that may be damaged behind its header, to answer with a failure; 0 if
// there is none.
std::uint64_t request_of(std::span<const std::byte> datagram);

}  // namespace penstock::wire
