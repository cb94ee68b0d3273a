// SPDX-License-Identifier: Apache-2.0
//
// The host's implementation of tenon_status, which passes failures across the ABI. `guard` converts
// exceptions to a status for a plugin. `take` copies a plugin's status and releases it.
// Not for errors inside the host, which are an Error (error.hpp).
// Invariant: no exception leaves a `guard`, and making a status never fails.
// Threads: any.

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

// The content of a status, as plain values.
struct StatusText {
  uint32_t code = TENON_OK;
  std::string id;
  std::string message;
  std::string file;  // of the plugin's source; "" if unknown
  int32_t line = 0;
  const tenon_host* host = nullptr;  // of the plugin; null if the host itself failed

  bool ok() const noexcept { return code == TENON_OK; }
};

// An Error that also has its ABI code. Thrown inside a `guard`, or after a call into a plugin to
// keep the plugin's code.
class StatusError : public Error {
 public:
  StatusError(uint32_t code, std::string id, std::string message)
      : Error(std::move(id), std::move(message)), code_(code) {}

  uint32_t code() const noexcept { return code_; }

 private:
  uint32_t code_;
};

// Makes a status. Null strings become "". If no memory is left, returns a static
// TENON_OUT_OF_MEMORY status, which may be released like any other.
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

// Copies the content of a status, and releases it. Null gives a StatusText that is ok().
StatusText take(tenon_status* status_own);

// Releases a status and throws its content as an Error. Null and TENON_OK do nothing.
// Errors: those of the status
void throw_if_failed(tenon_status* status_own);

// Makes a status from the exception being handled. Call inside a catch block.
//   StatusError     its own code and id
//   Error           TENON_INVALID and its id
//   std::bad_alloc  TENON_OUT_OF_MEMORY, "host.out_of_memory"
//   all others      TENON_INTERNAL, "host.internal"
tenon_status* status_of_current_exception(const tenon_host* host) noexcept;

// Returns the message of a libtorch exception without its C++ backtrace. Returns other messages
// unchanged.
std::string_view what_without_backtrace(std::string_view what) noexcept;

// Runs the body of a function that plugins call. If the body returns a status, returns that status;
// any other body succeeds by returning. Exceptions become a status.
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

// Returns the function table of TENON_STATUS_ID.
const tenon_status_api* status_service() noexcept;

}  // namespace tenon
