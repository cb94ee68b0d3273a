// SPDX-License-Identifier: Apache-2.0
//
// `guard` for bodies that call libtorch: its exceptions mostly report bad arguments, which a plugin
// should see as TENON_INVALID, not as bugs of the host.
// Threads: every function may be called from any thread.

#pragma once

#include "host/error/status.hpp"

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon {

// Returns the status of the exception that is being handled. Call it inside a catch block. For
// exceptions of the host, it is the result of status_of_current_exception(). Exceptions of
// libtorch, without their backtrace, become
//   out of memory        TENON_OUT_OF_MEMORY, "tensor.out_of_memory"
//   NotImplementedError  TENON_UNSUPPORTED, "tensor.op_failed"
//   others               TENON_INVALID, "tensor.op_failed"; also standard exceptions, which some of
//                        its checks throw
// `context` precedes the message, as in "aten::add.Tensor: ".
tenon_status* status_of_torch_exception(const tenon_host* host, const char* context) noexcept;

// Returns the status of an exception that may come from unguarded code of a plugin. Call it inside
// a catch block. Only its std::exception interface is used. The status has no id.
//   out of memory  TENON_OUT_OF_MEMORY
//   others         TENON_INTERNAL
tenon_status* status_of_foreign_exception(const tenon_host* host) noexcept;

// Returns the failed request in a message of libtorch, as in "could not allocate 64.0 GiB", else
// the text without its backtrace.
std::string out_of_memory_text(std::string_view what);

// True for std::bad_alloc and for exceptions of libtorch's allocators.
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

// `guard` for a body that may run unguarded code of a plugin, such as autograd nodes.
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
