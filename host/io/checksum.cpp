// SPDX-License-Identifier: Apache-2.0
#include "host/io/checksum.hpp"

#include "host/io/regular_file.hpp"

#include <cstdio>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tenon {

struct Checksum::State {
  alignas(64) XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

namespace {

std::string text_of(XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text,
                sizeof(text),
                "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace

std::string xxh128_text(std::span<const std::byte> bytes) {
  return text_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string xxh128_text(const std::string& text) {
  return xxh128_text(std::as_bytes(std::span(text)));
}

std::string xxh128_of_file(const std::string& path) {
  const RegularFile opened = open_regular_file(path);
  if (!opened.file.is_open()) {
    return "";
  }
  alignas(64) XXH3_state_t state;
  XXH3_128bits_reset(&state);
  std::vector<std::byte> buffer(size_t{1} << 20);
  uint64_t at = 0;
  for (size_t num_read = buffer.size(); num_read == buffer.size(); at += num_read) {
    if (!read_at(opened.file, at, buffer, num_read).empty()) {
      return "";
    }
    XXH3_128bits_update(&state, buffer.data(), num_read);
  }
  return text_of(XXH3_128bits_digest(&state));
}

std::string xxh3_text(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace tenon
