// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic with sizes that a file claims. A result that does not fit is absent, so that no check
// passes because a product wrapped.
// Threads: any.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace tenon {

// Returns a * b, or nothing if it exceeds 64 bits.
constexpr std::optional<uint64_t> checked_product(uint64_t a, uint64_t b) noexcept {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

// Returns a + b, or nothing if it exceeds 64 bits.
constexpr std::optional<uint64_t> checked_sum(uint64_t a, uint64_t b) noexcept {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}

// Returns the number of bytes of a tensor whose elements have `element_size` bytes. Nothing if a
// size is negative or the product exceeds 63 bits, also if another size is 0.
constexpr std::optional<uint64_t> checked_bytes(std::span<const int64_t> shape,
                                                uint64_t element_size) noexcept {
  uint64_t bytes = element_size;
  for (const int64_t size : shape) {
    const auto product =
        size < 0 ? std::nullopt : checked_product(bytes, static_cast<uint64_t>(size));
    if (!product.has_value()) {
      return std::nullopt;
    }
    bytes = *product;
  }
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return bytes <= kMost ? std::optional(bytes) : std::nullopt;
}

}  // namespace tenon
