// SPDX-License-Identifier: Apache-2.0
#include "host/io/content_hash.hpp"

#include "host/io/checksum.hpp"

namespace tenon {
namespace {

constexpr std::string_view kAlgorithm = "xxh128:";

}  // namespace

std::optional<std::string> content_hash(const std::string& file) {
  const std::string digits = xxh128_of_file(file);
  if (digits.empty()) {
    return std::nullopt;
  }
  return std::string(kAlgorithm) + digits;
}

bool is_content_hash(std::string_view text) {
  return text.starts_with(kAlgorithm);
}

}  // namespace tenon
