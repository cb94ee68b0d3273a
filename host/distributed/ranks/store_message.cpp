// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/store_message.hpp"

#include <stdexcept>

namespace tenon {
namespace {

constexpr size_t kSizeBytes = 4;

void put_number(std::string& bytes, uint64_t number, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    bytes += static_cast<char>(number >> (8 * i) & 0xff);
  }
}

// Removes `size` bytes from the start of `bytes`.
std::string_view take_bytes(std::string_view& bytes, size_t size) {
  if (size > bytes.size()) {
    throw std::invalid_argument("a message to the store of the ranks is malformed");
  }
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

uint64_t take_number(std::string_view& bytes, size_t size) {
  uint64_t number = 0;
  const std::string_view taken = take_bytes(bytes, size);
  for (size_t i = 0; i < size; ++i) {
    number |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
  }
  return number;
}

void check_message_size(uint64_t size) {
  if (size > kMaxMessage) {
    throw std::length_error("a message to the store of the ranks has more than 32 MiB");
  }
}

}  // namespace

std::string to_bytes(const StoreMessage& message) {
  std::string bytes;
  put_number(bytes, message.kind, 1);
  put_number(bytes, static_cast<uint64_t>(message.number), 8);
  put_number(bytes, message.texts.size(), kSizeBytes);
  for (const std::string& text : message.texts) {
    put_number(bytes, text.size(), kSizeBytes);
    bytes += text;
    check_message_size(bytes.size());
  }
  std::string result;
  put_number(result, bytes.size(), kSizeBytes);
  return result + bytes;
}

void StoreMessageReader::add(std::string_view bytes) {
  bytes_ += bytes;
  if (bytes_.size() >= kSizeBytes) {
    std::string_view head = bytes_;
    check_message_size(take_number(head, kSizeBytes));
  }
}

std::optional<StoreMessage> StoreMessageReader::next() {
  std::string_view rest = bytes_;
  if (rest.size() < kSizeBytes) {
    return std::nullopt;
  }
  const uint64_t size = take_number(rest, kSizeBytes);
  check_message_size(size);
  if (rest.size() < size) {
    return std::nullopt;
  }
  std::string_view body = rest.substr(0, size);
  StoreMessage message;
  message.kind = static_cast<uint8_t>(take_number(body, 1));
  message.number = static_cast<int64_t>(take_number(body, 8));
  for (uint64_t left = take_number(body, kSizeBytes); left > 0; --left) {
    message.texts.emplace_back(take_bytes(body, take_number(body, kSizeBytes)));
  }
  if (!body.empty()) {
    throw std::invalid_argument("a message to the store of the ranks is malformed");
  }
  bytes_.erase(0, kSizeBytes + size);
  return message;
}

}  // namespace tenon
