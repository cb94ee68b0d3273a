// SPDX-License-Identifier: Apache-2.0
//
// Requests to the store of the ranks, and its answers, as bytes. A message is its size (4 bytes,
// little-endian), then a kind (1), a number (8), the number of texts (4), and each text with its
// size (4) before it.
// Invariant: a message of more than kMaxMessage bytes is neither written nor read.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The addresses of 100,000 ranks fit.
constexpr size_t kMaxMessage = size_t{32} << 20;

enum class StoreRequest : uint8_t {
  kSet = 1,         // key, value
  kGet = 2,         // key; number: milliseconds to wait for it
  kAdd = 3,         // key; number: amount
  kDelete = 4,      // key
  kCheck = 5,       // keys
  kCount = 6,       //
  kWait = 7,        // keys; number: milliseconds
  kCompareSet = 8,  // key, expected value, new value
};

enum class StoreAnswer : uint8_t {
  kDone = 1,      // text: the value, if one was requested; number: the result, if it is one
  kTimedOut = 2,  // keys that are missing
  kRefused = 3,   // text: why
};

struct StoreMessage {
  uint8_t kind = 0;
  int64_t number = 0;
  std::vector<std::string> texts;
};

// Throws std::length_error if the message is too long.
std::string to_bytes(const StoreMessage& message);

// Collects the bytes of a connection.
class StoreMessageReader {
 public:
  // Throws std::length_error if a message announces more bytes than allowed.
  void add(std::string_view bytes);
  // Returns the next message, if it is complete. Throws std::invalid_argument if it is malformed.
  std::optional<StoreMessage> next();
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

}  // namespace tenon
