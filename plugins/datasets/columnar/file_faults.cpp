// SPDX-License-Identifier: Apache-2.0
#include "file_faults.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

bool is_file_fault(const Error& error) {
  constexpr std::array<std::string_view, 5> kIds = {"columnar.read",
                                                    "columnar.bad_offsets",
                                                    "columnar.changed",
                                                    "columnar.unknown_format",
                                                    "columnar.vanished"};
  return std::find(kIds.begin(), kIds.end(), error.id()) != kIds.end();
}

std::string FileFaults::of(const DataFile& file) {
  const auto key = std::make_tuple(file.name, file.size, file.changed);
  auto known = known_.find(key);
  if (known == known_.end()) {
    std::optional<Error> fault;
    try {
      std::vector<RowSpan> rows;
      for (const RowGroup& group : rules_.open(file)->groups()) {
        rows.push_back({file, group.number, 0, group.rows});
      }
      ShardReader(rules_, std::move(rows), 0).read_all();
    } catch (const Error& error) {
      fault = error;
    }
    known = known_.emplace(key, std::move(fault)).first;
  }
  const std::optional<Error>& fault = known->second;
  if (fault && !is_file_fault(*fault)) {
    throw *fault;
  }
  return fault ? fault->what() : "";
}

}  // namespace tenon
