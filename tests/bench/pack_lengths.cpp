// SPDX-License-Identifier: Apache-2.0
//
// Packs lengths as chats have them into rows: all at once, and in the groups of a shuffled epoch as
// a run does, with the lookup of lengths.
//
// usage: pack_lengths NUMBER   prints a line of JSON: seconds and fill of rows of 2,048 tokens
#include "host/data/pack_groups.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr int32_t kRow = 2048;

// A log-normal distribution with a median of 330 tokens; 5% would be above 1,850.
std::vector<int32_t> chat_lengths(std::size_t n) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal(5.8, 1.05);
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) {
    length = static_cast<int32_t>(std::clamp(std::exp(normal(generator)), 1.0, double{kRow}));
  }
  return lengths;
}

// A source that has nothing but lengths.
class Lengths final : public DataSource {
 public:
  explicit Lengths(const std::vector<int32_t>& lengths) : lengths_(lengths) {}

  const std::string& name() const override { return name_; }
  const DataSourceInfo& info() const override { return info_; }
  int64_t size(const Window*) override { return static_cast<int64_t>(lengths_.size()); }
  void read(const Window*, std::span<const int64_t>, tenon_batch_writer&) override {}
  bool next(const Window*, uint32_t, int64_t, tenon_batch_writer&) override { return true; }
  void seek(const Window*, uint32_t, const std::optional<std::string>&) override {}
  std::optional<Window> next_window() override { return std::nullopt; }
  void reset(uint64_t) override {}
  void lengths(const Window*, std::span<const int64_t> indices, std::span<int32_t> out) override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      out[i] = lengths_[static_cast<std::size_t>(indices[i])];
    }
  }

 private:
  const std::vector<int32_t>& lengths_;
  std::string name_ = "lengths";
  DataSourceInfo info_;
};

struct Packed {
  double seconds = 0;
  int64_t rows = 0;
};

template <class Body>
Packed timed(Body&& body) {
  const auto began = std::chrono::steady_clock::now();
  const int64_t rows = body();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), rows};
}

void measure(std::size_t n) {
  const std::vector<int32_t> lengths = chat_lengths(n);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const Packed whole = timed([&] {
    return static_cast<int64_t>(pack_rows(lengths, kRow, PackStrategy::kBestFit).num_rows);
  });
  Lengths source(lengths);
  const PackOptions options{
      .length = kRow, .strategy = PackStrategy::kBestFit, .group = 16384, .over_long = {}};
  const SampleOrderKey key{.seed = 1};
  const SampleOrder order(key, static_cast<int64_t>(n), SampleOrder::Shuffle::kYes);
  const PackGroups groups(source, nullptr, order, options, {.shuffle = true, .key = key});
  const Packed in_groups = timed([&] {
    int64_t rows = 0;
    for (int64_t group = 0; group < groups.num_groups(); ++group) {
      rows += static_cast<int64_t>(groups.group(group).rows.size());
    }
    return rows;
  });
  const auto fill = [&](const Packed& packed) {
    return static_cast<double>(tokens) /
           (static_cast<double>(kRow) * static_cast<double>(packed.rows));
  };
  std::printf(
      "{\"lengths\": %zu, \"whole_s\": %.4f, \"whole_fill\": %.5f, \"groups_s\": %.4f, "
      "\"groups_fill\": %.5f}\n",
      n,
      whole.seconds,
      fill(whole),
      in_groups.seconds,
      fill(in_groups));
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  const long n = argc == 2 ? std::atol(argv[1]) : 0;
  if (n < 1) {
    std::fprintf(stderr, "usage: pack_lengths NUMBER\n");
    return 2;
  }
  tenon::measure(static_cast<std::size_t>(n));
  return 0;
}
