// SPDX-License-Identifier: Apache-2.0
//
// The host's side of tenon_status: how a failure crosses the ABI, in both directions. Out: `guard`
// turns exceptions into a status. In: `take` copies a plugin's status and releases it.
// Not for errors that stay inside the host; those are an Error (error.hpp).
// Invariant: no exception leaves a `guard`, and making a status never fails.
// Threads: every function may be called from any thread.

#pragma once

#include <tenon/status.h>

#include "host/error/error.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon {

// What a status says, as plain values.
struct StatusText {
  uint32_t code = TENON_OK;
  std::string id;
  std::string message;
  std::string file;  // of the plugin's source; "" where it is not known
  int32_t line = 0;
  const tenon_host* host = nullptr;  // through which it was made; null if the host itself failed

  bool ok() const noexcept { return code == TENON_OK; }
};

// An Error that also knows its code at the ABI. Thrown under a `guard`, or after a plugin's call to
// keep the code that the plugin chose.
class StatusError : public Error {
 public:
  StatusError(uint32_t code, std::string id, std::string message)
      : Error(std::move(id), std::move(message)), code_(code) {}

  uint32_t code() const noexcept { return code_; }

 private:
  uint32_t code_;
};

// Makes a status. Null strings read as "". Without memory it returns a status that says so, and
// that may be released like any other.
//
// Owner  the caller releases it, or returns it across the ABI
tenon_status* make_status(const tenon_host* host,
                          uint32_t code,
                          const char* id,
                          const char* message,
                          const char* file = "",
                          int32_t line = 0) noexcept;

// Releases a status. Null is allowed.
void release(tenon_status* status_own) noexcept;

// Copies what a status says, and releases it. Null gives a text that is ok().
StatusText take(tenon_status* status_own);

// Releases a status, and throws what it says as an Error. Null and TENON_OK do nothing.
// Errors: those of the status
void throw_if_failed(tenon_status* status_own);

// The status of the exception that is being handled; to be called inside a catch block.
//   StatusError     its own code and id
//   Error           TENON_INVALID and its id
//   std::bad_alloc  TENON_OUT_OF_MEMORY, "host.out_of_memory"
//   others          TENON_INTERNAL, "host.internal"
tenon_status* status_of_current_exception(const tenon_host* host) noexcept;

// The message of a libtorch exception without the C++ backtrace that follows it. Other messages are
// returned as they are.
std::string_view what_without_backtrace(std::string_view what) noexcept;

// Runs the body of a function that plugins call. A body that returns a status hands it on; any
// other body succeeds by returning.
template <class Body>
[[nodiscard]] tenon_status* guard(const tenon_host* host, Body&& body) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Body>, tenon_status*>) {
      return std::forward<Body>(body)();
    } else {
      std::forward<Body>(body)();
      return nullptr;
    }
  } catch (...) {
    return status_of_current_exception(host);
  }
}

// The table of TENON_STATUS_ID.
const tenon_status_api* status_service() noexcept;

}  // namespace tenon
