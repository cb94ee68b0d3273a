// SPDX-License-Identifier: Apache-2.0
//
// Finds files that cannot be read to their end, by reading them, and remembers the results. Columns
// and values that the recipe does not allow are errors instead, because later files may have them
// too.
// Threads: owned by one thread.
#pragma once

#include <tenon/cpp/guard.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "file_list.hpp"
#include "shard_reader.hpp"

namespace tenon {

// True for a file that cannot be read: it is corrupt, cut off, gone, changed, or of another format.
// False for one whose columns or values the recipe does not allow.
bool is_file_fault(const Error& error);

class FileFaults {
 public:
  // `rules` is borrowed.
  explicit FileFaults(const ShardRules& rules) : rules_(rules) {}

  // Returns why the file cannot be read to its end; "" if it can.
  //
  // Errors   those that are no file faults, such as columnar.wrong_type and columnar.null
  std::string of(const DataFile& file);

 private:
  const ShardRules& rules_;
  // By name, size and time of change.
  std::map<std::tuple<std::string, int64_t, int64_t>, std::optional<Error>> known_;
};

}  // namespace tenon
