// SPDX-License-Identifier: Apache-2.0

#include "host/data/pack_rows.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Rows as a textbook states the algorithms: a look at every row for every sequence.
std::vector<int64_t> fills_of_textbook(std::vector<int32_t> lengths,
                                       int64_t capacity,
                                       PackStrategy strategy) {
  std::vector<int64_t> fills;
  if (strategy == PackStrategy::kGreedy) {
    for (const int32_t length : lengths) {
      if (fills.empty() || fills.back() + length > capacity) {
        fills.push_back(0);
      }
      fills.back() += length;
    }
    return fills;
  }
  std::ranges::stable_sort(lengths, std::greater<>());
  for (const int32_t length : lengths) {
    std::optional<size_t> best;
    for (size_t row = 0; row < fills.size(); ++row) {
      if (fills[row] + length <= capacity && (!best || fills[row] > fills[*best])) {
        best = row;
      }
    }
    if (best) {
      fills[*best] += length;
    } else {
      fills.push_back(length);
    }
  }
  std::ranges::sort(fills);
  return fills;
}

std::vector<int64_t> fills_of(const RowOfEach& rows, const std::vector<int32_t>& lengths) {
  std::vector<int64_t> fills(rows.num_rows, 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    fills.at(rows.row[i]) += lengths[i];
  }
  return fills;
}

std::vector<int32_t> random_lengths(size_t n, int32_t most, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) {
    length = 1 + static_cast<int32_t>(generator() % static_cast<uint64_t>(most));
  }
  return lengths;
}

// Lengths as chats have them: a log-normal distribution with a median of 330 tokens, of which 5%
// are above 1,800, cut at the row.
std::vector<int32_t> chat_lengths(size_t n, int32_t most) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal(5.8, 1.05);
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) {
    length = static_cast<int32_t>(
        std::clamp(std::exp(normal(generator)), 1.0, static_cast<double>(most)));
  }
  return lengths;
}

}  // namespace

TEST_CASE("rows are those of the textbook, for any lengths and capacity", "[data]") {
  for (const int64_t capacity : {1, 2, 5, 16, 63, 64, 65, 100, 4096, 5000}) {
    for (const size_t n : {0, 1, 2, 7, 40, 300}) {
      for (const uint64_t seed : {1, 2, 3}) {
        CAPTURE(capacity, n, seed);
        const auto most = static_cast<int32_t>(seed == 1 ? capacity : (capacity + 1) / 2);
        const std::vector<int32_t> lengths = random_lengths(n, most, seed);
        const RowOfEach greedy = pack_rows(lengths, capacity, PackStrategy::kGreedy);
        CHECK(fills_of(greedy, lengths) ==
              fills_of_textbook(lengths, capacity, PackStrategy::kGreedy));
        CHECK(std::ranges::is_sorted(greedy.row));  // the order is kept
        const RowOfEach best = pack_rows(lengths, capacity, PackStrategy::kBestFit);
        std::vector<int64_t> fills = fills_of(best, lengths);
        std::ranges::sort(fills);
        CHECK(fills == fills_of_textbook(lengths, capacity, PackStrategy::kBestFit));
      }
    }
  }
}

TEST_CASE("best_fit puts sequences of the largest capacity into rows", "[data]") {
  const std::vector<int32_t> lengths = {
      static_cast<int32_t>(kMaxRowCapacity), 1, static_cast<int32_t>(kMaxRowCapacity - 1)};
  const RowOfEach rows = pack_rows(lengths, kMaxRowCapacity, PackStrategy::kBestFit);
  CHECK(rows.num_rows == 2);
  CHECK(rows.row[1] == rows.row[2]);
}

TEST_CASE("a million lengths of chats fill rows of 2,048 tokens to 99 percent", "[data]") {
  const std::vector<int32_t> lengths = chat_lengths(1'000'000, 2048);
  const auto began = std::chrono::steady_clock::now();
  const RowOfEach rows = pack_rows(lengths, 2048, PackStrategy::kBestFit);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - began;
  const std::vector<int64_t> fills = fills_of(rows, lengths);
  CHECK(*std::ranges::max_element(fills) <= 2048);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const double fill = static_cast<double>(tokens) / (2048.0 * static_cast<double>(rows.num_rows));
  CHECK(fill >= 0.99);
  // The same in groups, as a run packs them.
  constexpr size_t kGroup = 16384;
  size_t num_rows = 0;
  for (size_t first = 0; first < lengths.size(); first += kGroup) {
    const auto group = std::span(lengths).subspan(first, std::min(kGroup, lengths.size() - first));
    num_rows += pack_rows(group, 2048, PackStrategy::kBestFit).num_rows;
  }
  const double in_groups = static_cast<double>(tokens) / (2048.0 * static_cast<double>(num_rows));
  CHECK(in_groups >= 0.99);
  WARN("a million lengths in " << time.count() << " s: rows " << 100 * fill
                               << "% full; in groups of 16,384: " << 100 * in_groups << "%");
}

}  // namespace tenon
