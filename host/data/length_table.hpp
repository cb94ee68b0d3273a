// SPDX-License-Identifier: Apache-2.0
//
// The lengths of all samples of one window of a dataset, read once and kept in memory: four bytes
// per sample.
// Threads: one at a time.

#pragma once

#include "host/data/data_source.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class LengthTable {
 public:
  // Writes the lengths of samples first, first + 1, ... to `out`.
  using Read = std::function<void(int64_t first, std::span<int64_t> out)>;

  // Reads `size` lengths; `dataset` is its name, for messages.
  //
  // Errors   data.bad_length for a length that is not from 1 to 2^31 - 1; what `read` throws
  LengthTable(const std::string& dataset, int64_t size, const Read& read);

  int32_t at(int64_t sample) const;
  const LengthSummary& summary() const { return summary_; }

 private:
  std::vector<int32_t> lengths_;
  LengthSummary summary_;
};

}  // namespace tenon
