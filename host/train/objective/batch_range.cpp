// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/batch_range.hpp"

namespace tenon {

std::vector<BatchRange> ranges_by_source(const Batch& batch) {
  std::vector<BatchRange> ranges;
  if (batch.packed_samples.has_value()) {
    for (const BatchSequence& sequence : batch.sequences) {
      ranges.push_back({.row = sequence.row,
                        .first = sequence.first,
                        .length = sequence.length,
                        .part = sequence.part});
    }
    return ranges;
  }
  for (size_t row = 0; row < batch.row_parts.size(); ++row) {
    if (!ranges.empty() && ranges.back().part == batch.row_parts[row]) {
      ++ranges.back().num_rows;
    } else {
      ranges.push_back({.row = static_cast<int64_t>(row), .part = batch.row_parts[row]});
    }
  }
  return ranges;
}

}  // namespace tenon
