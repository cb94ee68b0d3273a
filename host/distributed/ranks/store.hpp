// SPDX-License-Identifier: Apache-2.0
//
// The interface of the store that the ranks of a run share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// Texts that all ranks can read and write. The launcher or rank 0 keeps them.
class Store {
 public:
  virtual ~Store() = default;
  // All: Errors  distributed.failed if the store is not reached.
  // Threads: any.
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> find(const std::string& key) = 0;  // does not wait
  // Sets it where it is not set; returns what it is then.
  virtual std::string set_once(const std::string& key, const std::string& value) = 0;
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
};

}  // namespace tenon
