// SPDX-License-Identifier: Apache-2.0
//
// The interface of the store that the ranks of a run share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// Texts that all ranks can read and write. The launcher or rank 0 holds them.
class Store {
 public:
  virtual ~Store() = default;
  // All functions:
  // Errors   distributed.failed if the store cannot be reached
  // Threads  any
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> find(const std::string& key) = 0;  // does not wait
  // Sets `key` if it is not set; returns its value afterwards.
  virtual std::string set_once(const std::string& key, const std::string& value) = 0;
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
};

}  // namespace tenon
