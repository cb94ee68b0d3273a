// SPDX-License-Identifier: Apache-2.0

#include "host/data/length_table.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <limits>

namespace tenon {
namespace {

constexpr int64_t kSamplesPerCall = 1 << 16;
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

[[noreturn]] void fail(const std::string& dataset, int64_t sample, int64_t length) {
  throw Error(
      "data.bad_length",
      dataset +
          formatted(
              ": sample {} has the length {}, expected 1 to {}; ", sample, length, kMostTokens) +
          (length == 0 ? "remove samples without tokens from the data"
                       : "fix `lengths` of the dataset"));
}

}  // namespace

LengthTable::LengthTable(const std::string& dataset, int64_t size, const Read& read) {
  summary_.source = dataset;
  summary_.fingerprint = mix_bits(static_cast<uint64_t>(size));
  lengths_.reserve(static_cast<size_t>(size));
  std::vector<int64_t> some;
  for (int64_t first = 0; first < size; first += kSamplesPerCall) {
    // A length that is not written must not pass for one.
    some.assign(static_cast<size_t>(std::min(kSamplesPerCall, size - first)), -1);
    read(first, some);
    for (const int64_t length : some) {
      const auto sample = static_cast<int64_t>(lengths_.size());
      if (length < 1 || length > kMostTokens) {
        fail(dataset, sample, length);
      }
      if (length > summary_.longest) {
        summary_.longest = length;
        summary_.sample = sample;
      }
      summary_.fingerprint = mix_seeds(summary_.fingerprint, static_cast<uint64_t>(length));
      lengths_.push_back(static_cast<int32_t>(length));
    }
  }
}

int32_t LengthTable::at(int64_t sample) const {
  TENON_ASSERT(sample >= 0 && sample < static_cast<int64_t>(lengths_.size()),
               "a sample outside the window");
  return lengths_[static_cast<size_t>(sample)];
}

}  // namespace tenon
