// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/memory_service.hpp"

#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <cstdint>
#include <cstdlib>

namespace tenon {
namespace {

constexpr std::size_t kAlignment = 64;

tenon_status* allocate(const tenon_host* host, std::size_t bytes, void** out_own) {
  return guard(host, [&] {
    if (out_own == nullptr) {
      throw StatusError(
          TENON_INVALID, "memory.null_argument", "allocate was called with a null out_own");
    }
    if (bytes == 0) {
      *out_own = nullptr;
      return;
    }
    // Objects are limited to PTRDIFF_MAX bytes. aligned_alloc needs a multiple of the alignment.
    const bool fits = bytes <= static_cast<std::size_t>(PTRDIFF_MAX) - kAlignment;
    void* const memory =
        fits ? std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)
             : nullptr;
    if (memory == nullptr) {
      throw StatusError(TENON_OUT_OF_MEMORY,
                        "memory.exhausted",
                        formatted("no memory is left for {} bytes", bytes));
    }
    *out_own = memory;
  });
}

}  // namespace

const tenon_memory_api* memory_service() noexcept {
  static constexpr tenon_memory_api kApi = {
      .struct_size = sizeof(tenon_memory_api), .allocate = allocate, .release = std::free};
  return &kApi;
}

}  // namespace tenon
