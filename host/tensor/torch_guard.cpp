// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/torch_guard.hpp"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdio>
#include <iterator>
#include <new>
#include <string>
#include <string_view>

namespace tenon {
namespace {

tenon_status* status_of(const tenon_host* host, const std::exception& error, const char* context) {
  const std::string_view what = what_without_backtrace(error.what());
  const std::string message = std::string(context).append(what);
  if (is_out_of_memory(error)) {
    return make_status(host, TENON_OUT_OF_MEMORY, "tensor.out_of_memory", message.c_str());
  }
  const uint32_t code = dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr
                            ? TENON_UNSUPPORTED
                            : TENON_INVALID;
  return make_status(host, code, "tensor.op_failed", message.c_str());
}

}  // namespace

std::string out_of_memory_text(std::string_view what) {
  constexpr std::string_view kBefore = "you tried to allocate ";
  const size_t at = what.find(kBefore);
  double bytes = 0;
  if (at != std::string_view::npos) {
    const std::string_view number = what.substr(at + kBefore.size());
    std::from_chars(number.data(), number.data() + number.size(), bytes);
  }
  if (bytes <= 0) {
    return std::string(what_without_backtrace(what));
  }
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; unit + 1 < std::size(kUnits) && bytes >= 1024; ++unit) {
    bytes /= 1024;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "could not allocate %.1f %s", bytes, kUnits[unit]);
  return text;
}

bool is_out_of_memory(const std::exception& error) noexcept {
  // The CPU allocator throws a plain c10::Error, which only its text identifies.
  const std::string_view what = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         what.find("DefaultCPUAllocator: not enough memory") != std::string_view::npos ||
         what.find("DefaultCPUAllocator: can't allocate memory") != std::string_view::npos;
}

tenon_status* status_of_foreign_exception(const tenon_host* host) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    return guard(host, [&] {
      const std::string message(what_without_backtrace(error.what()));
      const uint32_t code = is_out_of_memory(error) ? TENON_OUT_OF_MEMORY : TENON_INTERNAL;
      return make_status(host, code, "", message.c_str());
    });
  } catch (...) {
    return make_status(host, TENON_INTERNAL, "", "an exception that is no std::exception");
  }
}

tenon_status* status_of_torch_exception(const tenon_host* host, const char* context) noexcept {
  try {
    throw;
  } catch (const Error&) {
    return status_of_current_exception(host);
  } catch (const std::bad_alloc&) {
    return status_of_current_exception(host);
  } catch (const std::exception& error) {
    return guard(host, [&] { return status_of(host, error, context); });
  } catch (...) {
    return status_of_current_exception(host);
  }
}

}  // namespace tenon
