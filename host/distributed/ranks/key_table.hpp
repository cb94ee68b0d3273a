// SPDX-License-Identifier: Apache-2.0
//
// The keys and values that a store server holds, with bounded memory.
// Threads: one at a time.
#pragma once

#include "host/distributed/ranks/store_message.hpp"

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

// A run of 10,000 ranks uses a tenth of both.
struct KeyLimits {
  size_t keys = 1 << 20;
  size_t bytes = size_t{1} << 30;  // of keys and values
};

class KeyTable {
 public:
  explicit KeyTable(KeyLimits limits = {}) : limits_(limits) {}

  // Answers a request that does not wait. Malformed requests, and those that need more than the
  // bounds, are refused and change nothing.
  StoreMessage answer(const StoreMessage& request);

  bool has(const std::string& key) const { return values_.contains(key); }
  // The key exists.
  const std::string& at(const std::string& key) const { return values_.at(key); }

 private:
  void set(const std::string& key, const std::string& value);

  const KeyLimits limits_;
  std::unordered_map<std::string, std::string> values_;
  size_t num_bytes_ = 0;
};

}  // namespace tenon
