// SPDX-License-Identifier: Apache-2.0
//
// `guard` for bodies that call libtorch: its exceptions are mostly complaints about arguments,
// which a plugin should see as TENON_INVALID, not as bugs of the host.
// Threads: every function may
// be called from any thread.

#pragma once

#include "host/error/status.hpp"

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon {

// The status of the exception that is being handled; to be called inside a catch block. Those of
// the host are what status_of_current_exception() makes of them. Those of libtorch, without their
// backtrace, become
//   out of memory        TENON_OUT_OF_MEMORY, "tensor.out_of_memory"
//   NotImplementedError  TENON_UNSUPPORTED, "tensor.op_failed"
//   others               TENON_INVALID, "tensor.op_failed"; standard exceptions too, which some of
//   its
//                        checks throw
//   context  goes before the message, as in "aten::add.Tensor: "
tenon_status* status_of_torch_exception(const tenon_host* host, const char* context) noexcept;

// The status of an exception that may be a plugin's, thrown where nobody guards it: of what it is,
// only std::exception is believed. Without an id; to be called inside a catch block.
//   out of memory  TENON_OUT_OF_MEMORY
//   others         TENON_INTERNAL
tenon_status* status_of_foreign_exception(const tenon_host* host) noexcept;

// The failed request in a message of libtorch: "could not allocate 64.0 GiB"; else
// the text without its backtrace.
std::string out_of_memory_text(std::string_view what);

// True of std::bad_alloc, and of what libtorch's allocators throw.
bool is_out_of_memory(const std::exception& error) noexcept;

// As guard().
template <class Body>
[[nodiscard]] tenon_status* torch_guard(const tenon_host* host,
                                        const char* context,
                                        Body&& body) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Body>, tenon_status*>) {
      return std::forward<Body>(body)();
    } else {
      std::forward<Body>(body)();
      return nullptr;
    }
  } catch (...) {
    return status_of_torch_exception(host, context);
  }
}

// `guard` for a body that may run a plugin's code without its own guard: nodes of autograd.
template <class Body>
[[nodiscard]] tenon_status* foreign_guard(const tenon_host* host, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return nullptr;
  } catch (...) {
    return status_of_foreign_exception(host);
  }
}

}  // namespace tenon
