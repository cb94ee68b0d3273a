// SPDX-License-Identifier: Apache-2.0
#include "host/io/content_hash.hpp"

#include "host/io/regular_file.hpp"
#include "host/io/sha256.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {
namespace {

constexpr std::string_view kAlgorithm = "sha256:";

}  // namespace

std::optional<std::string> content_hash(const std::string& file) {
  const RegularFile opened = open_regular_file(file);
  return opened.file.is_open() ? content_hash(opened.file) : std::nullopt;
}

std::optional<std::string> content_hash(const OpenFile& file) {
  Sha256 hash;
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  uint64_t at = 0;
  for (std::size_t num_read = buffer.size(); num_read == buffer.size(); at += num_read) {
    if (!read_at(file, at, buffer, num_read).empty()) {
      return std::nullopt;
    }
    hash.add(std::span(buffer).first(num_read));
  }
  return std::string(kAlgorithm) + hash.text();
}

std::string content_hash_of(std::string_view bytes) {
  return std::string(kAlgorithm) + sha256_text(bytes);
}

bool is_content_hash(std::string_view text) {
  return text.starts_with(kAlgorithm);
}

}  // namespace tenon
