// SPDX-License-Identifier: Apache-2.0
// ProgramStreams over one vendor's functions. Their names and types differ, and what they do does not.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include <dlfcn.h>

#include "dataplane/device/gpu/program_streams.hpp"

namespace penstock {

// A function of the driver, with the name under which its failures are told.
template <class Function>
struct NamedCall {
  const char* name;
  const char* symbol = name;
  Function function = nullptr;

  template <class... Arguments>
  DriverCode operator()(Arguments... arguments) const {
    return {function(arguments...), name};
  }
};

// Finds functions in a library that the program has loaded.
class LoadedSymbols {
 public:
  explicit LoadedSymbols(void* library) : library_(library) {}
  template <class Function>
  void find(NamedCall<Function>& call) {
    find_if_there(call);
    if (call.function == nullptr) missing_ = call.symbol;
  }
  template <class Function>
  void find_if_there(NamedCall<Function>& call) {
    call.function = reinterpret_cast<Function>(::dlsym(library_, call.symbol));
  }
  const char* missing() const { return missing_; }

 private:
  void* const library_;
  const char* missing_ = nullptr;
};

// Calls: the types Event, Stream and Address, the constants used below, a NamedCall for each function, and find_more for those
// that only this vendor has.
template <class Calls>
class ProgramStreamsOver : public ProgramStreams {
 public:
  explicit ProgramStreamsOver(const Calls& calls) : calls_(calls) {}

  DriverCode make_event(EventHandle& event) override {
    Event made = nullptr;
    const DriverCode code = calls_.event_create(&made, Calls::event_flags);
    if (code.ok()) event = EventHandle{reinterpret_cast<std::uintptr_t>(made)};
    return code;
  }
  DriverCode destroy_event(EventHandle event) override { return calls_.event_destroy(native(event)); }
  DriverCode record_event(EventHandle event, StreamHandle stream) override {
    return calls_.event_record(native(event), native(stream));
  }
  DriverCode query_event(EventHandle event) override { return calls_.event_query(native(event)); }
  DriverCode wait_event(EventHandle event) override { return calls_.event_synchronize(native(event)); }
  DriverCode is_capturing(StreamHandle stream, bool& capturing) override {
    int status = 0;
    const DriverCode code = calls_.stream_is_capturing(native(stream), &status);
    // The null stream can't be asked while another one captures what would wait for it.
    if (code.native == Calls::capture_implicit) {
      capturing = true;
      return {0, code.call};
    }
    if (code.ok()) capturing = status != 0;
    return code;
  }
  DriverCode copy_out(void* to, DeviceAddress from, std::uint64_t bytes, StreamHandle stream) override {
    const DriverCode code = calls_.memcpy_dtoh_async(to, native(from), bytes, native(stream));
    return code.ok() ? calls_.stream_synchronize(native(stream)) : code;
  }
  DriverCode synchronize() override { return calls_.synchronize(); }

  int relax_captures() override {
    int mode = Calls::capture_relaxed;
    if (calls_.exchange_capture_mode.function == nullptr || !calls_.exchange_capture_mode(&mode).ok())
      return -1;
    return mode;
  }
  void set_capture_mode(int mode) override { static_cast<void>(calls_.exchange_capture_mode(&mode)); }

  // The driver's functions, in the library.
  static Result<Calls> find(void* library) {
    Calls calls;
    LoadedSymbols symbols(library);
    symbols.find(calls.event_create);
    symbols.find(calls.event_destroy);
    symbols.find(calls.event_record);
    symbols.find(calls.event_query);
    symbols.find(calls.event_synchronize);
    symbols.find(calls.stream_is_capturing);
    symbols.find(calls.synchronize);
    symbols.find(calls.memcpy_dtoh_async);
    symbols.find(calls.stream_synchronize);
    symbols.find_if_there(calls.exchange_capture_mode);  // Null: an old driver.
    calls.find_more(symbols);
    if (symbols.missing() != nullptr) return Error{Errc::unsupported, 0, symbols.missing()};
    return calls;
  }

 protected:
  const Calls calls_;

 private:
  using Event = typename Calls::Event;
  using Stream = typename Calls::Stream;
  using Address = typename Calls::Address;
  static Event native(EventHandle event) {
    return reinterpret_cast<Event>(static_cast<std::uintptr_t>(event));
  }
  static Stream native(StreamHandle stream) {
    return reinterpret_cast<Stream>(static_cast<std::uintptr_t>(stream));
  }
  static Address native(DeviceAddress address) {
    if constexpr (std::is_pointer_v<Address>)
      return reinterpret_cast<Address>(static_cast<std::uintptr_t>(address));
    else
      return static_cast<Address>(address);
  }
};

}  // namespace penstock
