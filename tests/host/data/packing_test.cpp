// SPDX-License-Identifier: Apache-2.0
//
// Samples packed into rows: the whole way from a source to the batches of a loader.

#include "host/data/data_stream.hpp"
#include "host/data/mix_source.hpp"
#include "host/data/packed_source.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Sample i has the tokens 1000 i, 1000 i + 1, ...; labels are the next tokens, and the features of
// a token are its number and half of it. Samples of window w have 1,000,000 w more.
class FakeSequences final : public FakeSource {
 public:
  explicit FakeSequences(std::vector<int64_t> lengths)
      : FakeSource(DatasetStyle::kMap), lengths_(std::move(lengths)) {
    const std::vector<Axis> axes = {{.name = "B"}, {.name = "T"}};
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(
        std::vector<FieldInfo>{{.name = "input_ids", .dtype = TENON_I64, .axes = axes, .pad = 7},
                               {.name = "labels", .dtype = TENON_I64, .axes = axes},
                               {.name = "x",
                                .dtype = TENON_F32,
                                .axes = {{.name = "B"}, {.name = "T"}, {.name = "", .size = 2}},
                                .pad = 0.5}});
    info_.has_lengths = true;
  }

  void set_field(const FieldInfo& field) {
    std::vector<FieldInfo> fields = *info_.schema;
    fields.push_back(field);
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(std::move(fields));
  }
  // Adds a column [B, n] of doubled tokens, as features make them, with `extra` entries more than
  // tokens.
  void add_column(int64_t extra) {
    set_field({.name = "column", .dtype = TENON_I64, .axes = {{.name = "B"}, {.name = ""}}});
    extra_entries_ = extra;
  }
  void take_lengths_away() { info_.has_lengths = false; }

  int64_t size(const Window*) override { return static_cast<int64_t>(lengths_.size()); }

  void lengths(const Window*, std::span<const int64_t> indices, std::span<int32_t> out) override {
    const Call call(*this, true);
    for (size_t i = 0; i < indices.size(); ++i) {
      out[i] = static_cast<int32_t>(lengths_.at(static_cast<size_t>(indices[i])));
    }
  }
  LengthSummary length_summary(const Window*) override {
    LengthSummary summary{.source = name_, .fingerprint = 1};
    for (size_t i = 0; i < lengths_.size(); ++i) {
      summary.fingerprint = summary.fingerprint * 31 + static_cast<uint64_t>(lengths_[i]);
      if (lengths_[i] > summary.longest) {
        summary.longest = lengths_[i];
        summary.sample = static_cast<int64_t>(i);
      }
    }
    return summary;
  }

  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override {
    const Call call(*this, true);
    const auto n = static_cast<int64_t>(indices.size());
    std::vector<int64_t> lengths;
    for (const int64_t sample : indices) {
      lengths.push_back(lengths_.at(static_cast<size_t>(sample)) -
                        (shorter.contains(sample) ? 1 : 0));
    }
    const int64_t width = *std::ranges::max_element(lengths) + 3;  // wider than needed
    at::Tensor ids = at::full({n, width}, -1, at::kLong);
    at::Tensor labels = at::full({n, width}, -1, at::kLong);
    at::Tensor x = at::full({n, width, 2}, -1.0, at::kFloat);
    for (int64_t b = 0; b < n; ++b) {
      const int64_t sample = indices[static_cast<size_t>(b)];
      const int64_t first = 1000 * sample + (window != nullptr ? 1'000'000 * window->id() : 0);
      for (int64_t t = 0; t < lengths[static_cast<size_t>(b)]; ++t) {
        ids[b][t] = first + t;
        labels[b][t] = first + t + 1;
        x[b][t][0] = static_cast<double>(first + t);
        x[b][t][1] = static_cast<double>(first + t) / 2;
      }
    }
    uint32_t field = 0;
    for (const at::Tensor& tensor : {ids, labels, x}) {
      throw_if_failed(writer.add_tensor(&writer, field++, borrow(tensor)));
    }
    if (extra_entries_.has_value()) {
      const at::Tensor column = at::cat({ids * 2, at::zeros({n, *extra_entries_}, at::kLong)}, 1);
      throw_if_failed(writer.add_tensor(&writer, field++, borrow(column)));
    }
    throw_if_failed(
        writer.set_counts(&writer, n, std::accumulate(lengths.begin(), lengths.end(), int64_t{0})));
    throw_if_failed(writer.set_lengths(&writer, lengths.data(), lengths.size()));
  }

  std::set<int64_t> shorter;  // samples that a read gives a token less than lengths() says

 private:
  std::vector<int64_t> lengths_;
  std::optional<int64_t> extra_entries_;  // of the column, if there is one
};

std::vector<int64_t> some_lengths(size_t n, int64_t most, uint64_t seed = 1) {
  std::mt19937_64 generator(seed);
  std::vector<int64_t> lengths(n);
  for (int64_t& length : lengths) {
    const auto bits = generator();
    length = 1 + static_cast<int64_t>(std::min(bits % most, (bits >> 32) % most));
  }
  return lengths;
}

// Numbers of a tensor, row by row.
std::vector<std::vector<int64_t>> rows_of(const at::Tensor& tensor) {
  std::vector<std::vector<int64_t>> rows;
  for (int64_t r = 0; r < tensor.size(0); ++r) {
    const auto* const data = tensor.const_data_ptr<int64_t>() + r * tensor.size(1);
    rows.emplace_back(data, data + tensor.size(1));
  }
  return rows;
}

using Rows = std::vector<std::vector<int64_t>>;

// The rows of `input_ids` that a loader still gives, without padding, batch by batch.
std::vector<Rows> drain_rows(Loader& loader) {
  std::vector<Rows> batches;
  while (const std::optional<Batch> batch = loader.next()) {
    Rows rows;
    if (batch->samples > 0) {
      rows = rows_of(*batch->find("input_ids"));
      const auto* const lengths = batch->lengths.const_data_ptr<int64_t>();
      for (size_t r = 0; r < rows.size(); ++r) {
        rows[r].resize(static_cast<size_t>(lengths[r]));
      }
    }
    batches.push_back(std::move(rows));
  }
  return batches;
}

Rows flat(const std::vector<Rows>& batches) {
  Rows all;
  for (const Rows& rows : batches) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

// The samples of rows, with the tokens that the rows have of each.
std::map<int64_t, std::vector<int64_t>> tokens_by_sample(const Rows& rows) {
  std::map<int64_t, std::vector<int64_t>> samples;
  for (const std::vector<int64_t>& row : rows) {
    for (const int64_t token : row) {
      samples[token / 1000].push_back(token % 1000);
    }
  }
  for (auto& [sample, tokens] : samples) {
    std::ranges::sort(tokens);
  }
  return samples;
}

std::string error_of_load(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return "[" + std::string(error.id()) + "] " + error.message();
  }
  return "";
}

constexpr PackOptions kSmall{
    .length = 16, .strategy = PackStrategy::kBestFit, .group = 10, .over_long = OverLong::kError};

}  // namespace

// ---- rows ----

TEST_CASE("a row has its samples side by side, numbered, then padding", "[data]") {
  FakeSequences source({3, 5, 2, 7, 1});
  PackedSource packed(
      source,
      {.length = 9, .strategy = PackStrategy::kGreedy, .group = 4, .over_long = OverLong::kError});
  Loader loader(packed, std::nullopt, 0, {.batch_size = 3});
  const std::optional<Batch> batch = loader.next();
  REQUIRE(batch);
  CHECK(batch->samples == 3);
  CHECK(batch->dataset_samples() == 5);
  CHECK(batch->tokens == 18);
  // Samples 0 and 1; 2 and 3; the next group has sample 4.
  CHECK(rows_of(*batch->find("input_ids")) ==
        Rows{{0, 1, 2, 1000, 1001, 1002, 1003, 1004, 7},
             {2000, 2001, 3000, 3001, 3002, 3003, 3004, 3005, 3006},
             {4000, 7, 7, 7, 7, 7, 7, 7, 7}});
  CHECK(rows_of(*batch->find("labels"))[0] ==
        std::vector<int64_t>{1, 2, 3, 1001, 1002, 1003, 1004, 1005, -100});
  CHECK(rows_of(*batch->find("position_ids")) ==
        Rows{{0, 1, 2, 0, 1, 2, 3, 4, 0},
             {0, 1, 0, 1, 2, 3, 4, 5, 6},
             {0, 0, 0, 0, 0, 0, 0, 0, 0}});  // padding has no positions
  CHECK(rows_of(*batch->find("segment_ids")) == Rows{{0, 0, 0, 1, 1, 1, 1, 1, 2},
                                                     {0, 0, 1, 1, 1, 1, 1, 1, 1},
                                                     {0, 1, 1, 1, 1, 1, 1, 1, 1}});
  CHECK(at::equal(*batch->find("lengths"), at::tensor({8, 9, 1}, at::kLong)));
  const at::Tensor& x = *batch->find("x");
  REQUIRE(x.sizes() == at::IntArrayRef({3, 9, 2}));
  CHECK(x[0][4][0].item<double>() == 1001);
  CHECK(x[0][4][1].item<double>() == 500.5);
  CHECK(x[2][1][1].item<double>() == 0.5);
  CHECK_FALSE(loader.next());
  CHECK((loader.pack_counts() == PackCounts{.rows = 3, .samples = 5, .tokens = 18}));
}

TEST_CASE("each sample comes once an epoch, whole, whatever is packed by whom", "[data]") {
  for (const size_t n : {1, 9, 10, 57}) {
    const std::vector<int64_t> lengths = some_lengths(n, 16);
    for (const PackStrategy strategy : {PackStrategy::kGreedy, PackStrategy::kBestFit}) {
      for (const int64_t group : {1, 10, 1000}) {
        std::optional<Rows> expected;
        for (const int64_t ranks : {1, 2, 4}) {
          for (const int64_t batch_size : {1, 3}) {
            CAPTURE(n, word_of(strategy), group, ranks, batch_size);
            // Rows in the global order: those of the ranks, microbatch by microbatch.
            std::vector<std::vector<Rows>> of_ranks;
            for (int64_t rank = 0; rank < ranks; ++rank) {
              FakeSequences source(lengths);
              PackedSource packed(source,
                                  {.length = 16,
                                   .strategy = strategy,
                                   .group = group,
                                   .over_long = OverLong::kError});
              Loader loader(packed,
                            std::nullopt,
                            2,
                            {.batch_size = batch_size,
                             .rank = {rank, ranks},
                             .shuffle = true,
                             .seed = 3,
                             .num_threads = static_cast<int>(rank),
                             .prefetch = 2});
              of_ranks.push_back(drain_rows(loader));
              CHECK(of_ranks.back().size() == of_ranks.front().size());
              CHECK(loader.pack_counts().samples == static_cast<int64_t>(n));
              CHECK_FALSE(source.was_unsafe);
            }
            Rows rows;
            for (size_t m = 0; m < of_ranks.front().size(); ++m) {
              for (const std::vector<Rows>& batches : of_ranks) {
                rows.insert(rows.end(), batches[m].begin(), batches[m].end());
              }
            }
            CHECK(rows == expected.value_or(rows));  // the same rows on any number of ranks
            expected = rows;
            const auto samples = tokens_by_sample(rows);
            REQUIRE(samples.size() == n);
            for (const auto& [sample, tokens] : samples) {
              std::vector<int64_t> all(static_cast<size_t>(lengths[static_cast<size_t>(sample)]));
              std::iota(all.begin(), all.end(), 0);
              CHECK(tokens == all);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("rows of each epoch have another order, unless the order is fixed", "[data]") {
  const std::vector<int64_t> lengths = some_lengths(60, 16);
  const auto rows = [&](uint64_t epoch, bool shuffle, PackStrategy strategy) {
    FakeSequences source(lengths);
    PackedSource packed(
        source, {.length = 16, .strategy = strategy, .group = 20, .over_long = OverLong::kError});
    Loader loader(packed, std::nullopt, epoch, {.batch_size = 1, .shuffle = shuffle, .seed = 5});
    return flat(drain_rows(loader));
  };
  CHECK(rows(0, true, PackStrategy::kBestFit) != rows(1, true, PackStrategy::kBestFit));
  CHECK(rows(0, false, PackStrategy::kBestFit) == rows(1, false, PackStrategy::kBestFit));
  // Greedy rows hold the samples in the global order; best_fit starts rows in that order.
  const Rows greedy = rows(0, false, PackStrategy::kGreedy);
  int64_t last = -1;
  for (const std::vector<int64_t>& row : greedy) {
    for (const int64_t token : row) {
      CHECK(token > last);
      last = token;
    }
  }
  const Rows best = rows(0, false, PackStrategy::kBestFit);
  CHECK(std::ranges::is_sorted(best, {}, [](const auto& row) { return row.front(); }));
  // With a draw, rows do not come from the one with the longest sample to that with the shortest.
  std::vector<size_t> longest;
  for (const std::vector<int64_t>& row : rows(0, true, PackStrategy::kBestFit)) {
    size_t most = 0;
    for (const auto& [sample, tokens] : tokens_by_sample({row})) {
      most = std::max(most, tokens.size());
    }
    longest.push_back(most);
  }
  CHECK_FALSE(std::is_sorted(longest.begin(), longest.begin() + 5, std::greater<>()));
}

// ---- positions ----

TEST_CASE("a packed loader resumes after any batch, on other ranks too", "[data]") {
  const std::vector<int64_t> lengths = some_lengths(97, 16, 4);
  const auto options = [](int64_t rank, int64_t ranks, int64_t batch_size) {
    return LoaderOptions{
        .batch_size = batch_size, .rank = {rank, ranks}, .shuffle = true, .seed = 9};
  };
  FakeSequences source(lengths);
  PackedSource packed(source, kSmall);
  Loader whole(packed, std::nullopt, 1, options(0, 1, 2));
  const Rows all = flat(drain_rows(whole));
  const int64_t num_rows = whole.position().cursor;
  REQUIRE(num_rows == static_cast<int64_t>(all.size()));
  for (const int64_t stop_after : {1, 2, 3, 7, 11, 20, 1000}) {
    CAPTURE(stop_after);
    Loader first(packed, std::nullopt, 1, options(0, 1, 2));
    for (int64_t i = 0; i < stop_after && first.next(); ++i) {
    }
    const LoaderPosition position = first.position();
    CHECK(position.cursor == std::min(num_rows, 2 * stop_after));
    Rows rest(all.begin() + position.cursor, all.end());
    source.num_reads = 0;
    Loader resumed(packed, std::nullopt, 1, options(0, 1, 2), position);
    CHECK(flat(drain_rows(resumed)) == rest);
    CHECK(resumed.position().cursor == num_rows);
    PackCounts counts = first.pack_counts();
    CHECK((counts += resumed.pack_counts()) == whole.pack_counts());
    std::vector<std::vector<Rows>> of_ranks;
    for (int64_t rank = 0; rank < 3; ++rank) {
      Loader part(packed, std::nullopt, 1, options(rank, 3, 1), position);
      of_ranks.push_back(drain_rows(part));
    }
    Rows together;
    for (size_t m = 0; m < of_ranks.front().size(); ++m) {
      for (const std::vector<Rows>& batches : of_ranks) {
        together.insert(together.end(), batches[m].begin(), batches[m].end());
      }
    }
    CHECK(together == rest);
  }
}

TEST_CASE("resuming packs the groups ahead, and none that are done", "[data]") {
  FakeSequences source(std::vector<int64_t>(10'000, 16));  // a row each
  PackedSource packed(source, kSmall);
  const LoaderPosition late{.cursor = 9'990, .packs = {.group = 999, .row = 0}};
  source.num_reads = 0;
  Loader loader(packed, std::nullopt, 0, {.batch_size = 1}, late);
  CHECK(source.num_reads == 1);  // the lengths of one group
  CHECK(flat(drain_rows(loader)).size() == 10);
}

TEST_CASE("an incomplete step of rows is dropped on request", "[data]") {
  FakeSequences source(std::vector<int64_t>(23, 16));
  PackedSource packed(source, kSmall);
  for (const int64_t ranks : {1, 2}) {
    int64_t num_rows = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Loader loader(packed,
                    std::nullopt,
                    0,
                    {.batch_size = 2,
                     .rank = {rank, ranks},
                     .last = Remainder::kDrop,
                     .samples_per_step = 8});
      num_rows += static_cast<int64_t>(flat(drain_rows(loader)).size());
      CHECK(loader.num_dropped() == 7);
    }
    CHECK(num_rows == 16);
  }
}

TEST_CASE("a stream of packed epochs and windows resumes inside a group", "[data]") {
  const auto run = [](FakeSequences& source, const PackOptions& options, int stop_after) {
    source.set_windows({make_window(1, "a", 37), make_window(2, "b", 37)});
    PackedSource packed(source, options);
    const LoaderOptions loader{.batch_size = 2, .shuffle = true, .seed = 2};
    std::vector<Rows> batches;
    StateTree saved;
    {
      DataStream stream(packed, loader);
      stream.begin_epoch(0);
      int num_batches = 0;
      while (num_batches < stop_after && stream.next_window()) {
        while (num_batches < stop_after) {
          const std::optional<Batch> batch = stream.loader().next();
          if (!batch) {
            break;
          }
          batches.push_back(rows_of(*batch->find("input_ids")));
          ++num_batches;
        }
      }
      stream.snapshot(saved, "data");
    }
    DataStream stream(packed, loader);
    stream.load(saved, "data");
    do {
      while (stream.has_window()) {
        const std::optional<Batch> batch = stream.loader().next();
        if (!batch) {
          break;
        }
        batches.push_back(rows_of(*batch->find("input_ids")));
      }
    } while (stream.next_window());
    return std::pair(batches, stream.pack_counts_of_epoch());
  };
  const std::vector<int64_t> lengths = some_lengths(37, 20);
  PackOptions options = kSmall;
  options.over_long = OverLong::kSplit;
  FakeSequences source(lengths);
  const auto whole = run(source, options, 1000);
  CHECK(whole.second.samples == 74);
  CHECK(whole.second.over_long > 0);
  for (const int stop_after : {1, 4, 9, 13, 17}) {
    CAPTURE(stop_after);
    const auto parts = run(source, options, stop_after);
    CHECK(parts.first == whole.first);
    CHECK((parts.second == whole.second));
  }
}

TEST_CASE("a packed stream does not resume with other lengths or options", "[data]") {
  FakeSequences source(some_lengths(30, 16));
  PackedSource packed(source, kSmall);
  StateTree saved;
  DataStream stream(packed, {.batch_size = 1});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  REQUIRE(stream.loader().next());
  stream.snapshot(saved, "data");

  FakeSequences other(some_lengths(30, 16, 2));
  PackedSource packed_other(other, kSmall);
  DataStream changed(packed_other, {.batch_size = 1});
  CHECK_THAT(
      error_of_load([&] { changed.load(saved, "data"); }),
      contains_text("[data.changed] dataset \"fake\": the lengths of its samples differ from "
                    "those at the checkpoint"));
  PackOptions wider = kSmall;
  wider.length = 17;
  PackedSource packed_wider(source, wider);
  DataStream wide(packed_wider, {.batch_size = 1});
  CHECK_THAT(error_of_load([&] { wide.load(saved, "data"); }),
             contains_text("it is packed by best_fit into rows of 17 tokens, in groups of 10 "
                           "samples, over-long samples refused, and was packed by best_fit into "
                           "rows of 16 tokens"));
  DataStream plain(source, {.batch_size = 1});
  CHECK_THAT(error_of_load([&] { plain.load(saved, "data"); }),
             contains_text("it is not packed, and was packed by best_fit"));
}

// ---- samples longer than a row ----

TEST_CASE("samples longer than a row are dropped, cut, split or refused", "[data]") {
  const std::vector<int64_t> lengths = {3, 21, 8, 8, 40};
  const auto rows = [&](OverLong what) {
    FakeSequences source(lengths);
    PackOptions options{
        .length = 8, .strategy = PackStrategy::kGreedy, .group = 2, .over_long = what};
    PackedSource packed(source, options);
    Loader loader(packed, std::nullopt, 0, {.batch_size = 2});
    Rows all = flat(drain_rows(loader));
    return std::pair(tokens_by_sample(all), loader.pack_counts());
  };
  const auto sizes = [](const std::map<int64_t, std::vector<int64_t>>& samples) {
    std::map<int64_t, size_t> by_sample;
    for (const auto& [sample, tokens] : samples) {
      by_sample[sample] = tokens.size();
    }
    return by_sample;
  };
  const auto dropped = rows(OverLong::kDrop);
  CHECK(sizes(dropped.first) == std::map<int64_t, size_t>{{0, 3}, {2, 8}, {3, 8}});
  CHECK((dropped.second ==
         PackCounts{.rows = 3, .samples = 3, .tokens = 19, .over_long = 2, .lost = 61}));
  const auto cut = rows(OverLong::kCut);
  CHECK(sizes(cut.first) == std::map<int64_t, size_t>{{0, 3}, {1, 8}, {2, 8}, {3, 8}, {4, 8}});
  CHECK(cut.first.at(1) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK((cut.second ==
         PackCounts{.rows = 5, .samples = 5, .tokens = 35, .over_long = 2, .lost = 45}));
  const auto split = rows(OverLong::kSplit);
  CHECK(sizes(split.first) == std::map<int64_t, size_t>{{0, 3}, {1, 21}, {2, 8}, {3, 8}, {4, 40}});
  CHECK(split.second.samples == 5);
  CHECK(split.second.over_long == 2);
  CHECK(split.second.lost == 0);
  CHECK(split.second.tokens == 80);
  CHECK_THAT(
      error_of_load([&] { rows(OverLong::kError); }),
      contains_text(
          "[data.too_long] dataset \"fake\": sample 4 (counted from 0) has 40 tokens, but the rows "
          "of packing have 8; set \"over_long\" of packing to \"drop\", \"cut\" or "
          "\"split\", or use longer rows"));
  CHECK(describe(cut.second, {.length = 8, .over_long = OverLong::kCut}) ==
        "5 samples in 5 rows of 8 tokens, 87.50% full; 2 samples were longer than a row and cut, "
        "by 45 tokens");
}

TEST_CASE("pieces of a split sample are separate sequences", "[data]") {
  FakeSequences source({5});
  PackedSource packed(
      source,
      {.length = 3, .strategy = PackStrategy::kBestFit, .group = 1, .over_long = OverLong::kSplit});
  Loader loader(packed, std::nullopt, 0, {.batch_size = 2});
  const std::optional<Batch> batch = loader.next();
  REQUIRE(batch);
  CHECK(rows_of(*batch->find("input_ids")) == Rows{{0, 1, 2}, {3, 4, 7}});
  CHECK(rows_of(*batch->find("labels")) == Rows{{1, 2, 3}, {4, 5, -100}});
  CHECK(rows_of(*batch->find("position_ids")) == Rows{{0, 1, 2}, {0, 1, 0}});
  CHECK(rows_of(*batch->find("segment_ids")) == Rows{{0, 0, 0}, {0, 0, 1}});
  CHECK(batch->dataset_samples() == 1);
}

TEST_CASE("a window whose samples are all dropped has no rows", "[data]") {
  FakeSequences source({9, 9, 9});
  PackedSource packed(
      source,
      {.length = 8, .strategy = PackStrategy::kBestFit, .group = 2, .over_long = OverLong::kDrop});
  Loader loader(packed, std::nullopt, 0, {.batch_size = 2});
  CHECK_FALSE(loader.has_next());
}

// ---- mixes ----

TEST_CASE("the order of a mix is packed, and its shares are counted by samples", "[data]") {
  FakeSequences a(some_lengths(30, 16, 1));
  FakeSequences b(some_lengths(70, 16, 2));
  MixSource mix(
      {{.name = "a", .weight = 1, .source = &a}, {.name = "b", .weight = 2, .source = &b}},
      {.when = WhenOneEnds::kContinue, .seed = 4, .shuffle = true});
  REQUIRE(mix.info().has_lengths);
  PackedSource packed(mix, kSmall);
  Loader loader(packed, std::nullopt, 0, {.batch_size = 2, .shuffle = true, .seed = 4});
  int64_t samples = 0;
  Rows all;
  while (const std::optional<Batch> batch = loader.next()) {
    samples += batch->dataset_samples();
    const std::vector<int64_t> parts = loader.part_samples();
    CHECK(parts[0] + parts[1] == samples);
    // Within a group of 10, the shares may differ by the samples of its rows to come.
    CHECK(parts[0] <= 30);
    CHECK(parts[1] <= 70);
    for (const std::vector<int64_t>& row : rows_of(*batch->find("input_ids"))) {
      all.push_back(row);
    }
  }
  CHECK(loader.part_samples() == std::vector<int64_t>{30, 70});
  CHECK(loader.pack_counts().samples == 100);
}

TEST_CASE("the mix names the source without lengths", "[data]") {
  FakeSequences a({3});
  FakeSequences b({3});
  b.take_lengths_away();
  MixSource mix({{.name = "web", .source = &a}, {.name = "books", .source = &b}}, {});
  CHECK_THAT(error_of_load([&] { PackedSource packed(mix, kSmall); }),
             contains_text("[data.cannot_pack] the mix of \"web\" and \"books\": \"books\" has no "
                           "`lengths`, which packing needs"));
}

TEST_CASE("a column with an entry for each token is packed as its tokens are", "[data]") {
  FakeSequences source({3, 5, 2});
  source.add_column(0);
  PackedSource packed(
      source,
      {.length = 9, .strategy = PackStrategy::kGreedy, .group = 4, .over_long = OverLong::kError});
  Loader loader(packed, std::nullopt, 0, {.batch_size = 2});
  const std::optional<Batch> batch = loader.next();
  REQUIRE(batch);
  CHECK(rows_of(*batch->find("column")) ==
        Rows{{0, 2, 4, 2000, 2002, 2004, 2006, 2008, 0}, {4000, 4002, 0, 0, 0, 0, 0, 0, 0}});

  FakeSequences wider({3, 5, 2});
  wider.add_column(1);
  PackedSource refused(wider, kSmall);
  Loader other(refused, std::nullopt, 0, {.batch_size = 1});
  CHECK_THAT(error_of_load([&] { other.next(); }),
             contains_text("[data.bad_batch] dataset \"fake\": field \"column\" has ") &&
                 contains_text("packing needs one entry per token"));
}

// ---- refusals ----

TEST_CASE("what cannot be packed is refused, and named", "[data]") {
  const auto error_with = [](const FieldInfo& field) {
    FakeSequences source({3});
    source.set_field(field);
    return error_of_load([&] { PackedSource packed(source, kSmall); });
  };
  CHECK_THAT(error_with({.name = "score", .dtype = TENON_F32, .axes = {{.name = "B"}}}),
             contains_text("[data.cannot_pack] dataset \"fake\": field \"score\" cannot be packed: "
                           "it does not have one entry per token: its first axes are not B and T; "
                           "choose a dataset without the field, or remove \"packing\""));
  CHECK_THAT(error_with({.name = "mask",
                         .dtype = TENON_F32,
                         .axes = {{.name = "B"}, {.name = "T"}, {.name = "T"}}}),
             contains_text("it has the axis B or T twice"));
  CHECK_THAT(
      error_with(
          {.name = "segment_ids", .dtype = TENON_I64, .axes = {{.name = "B"}, {.name = "T"}}}),
      contains_text("packing makes a field of this name"));
  FakeSequences source({3});
  source.take_lengths_away();
  CHECK_THAT(error_of_load([&] { PackedSource packed(source, kSmall); }),
             contains_text("[data.cannot_pack] dataset \"fake\": it has no `lengths`, which "
                           "packing needs"));
  FakeStream stream({3}, FakeStream::End::kWithLast);
  CHECK_THAT(error_of_load([&] { PackedSource packed(stream, kSmall); }),
             contains_text("a stream has no lengths, which packing needs"));
}

TEST_CASE("a read that contradicts the lengths is refused", "[data]") {
  FakeSequences source({3, 4, 5});
  source.shorter = {1};
  PackedSource packed(source, kSmall);
  Loader loader(packed, std::nullopt, 0, {.batch_size = 1});
  CHECK_THAT(error_of_load([&] { loader.next(); }),
             contains_text("[data.bad_length] dataset \"fake\": a read gave sample 1 the length 3, "
                           "but `lengths` returned 4"));
}

TEST_CASE("a packed source reads single samples into separate rows", "[data]") {
  FakeSequences source({3, 40});
  PackedSource packed(source, kSmall);
  BatchBuilder builder(packed, 2);
  packed.read(nullptr, std::vector<int64_t>{1, 0}, builder.writer());
  const Batch batch = builder.finish();
  CHECK(batch.tokens == 19);
  CHECK(rows_of(*batch.find("input_ids"))[1][3] == 7);
  CHECK(at::equal(batch.lengths, at::tensor({16, 3}, at::kLong)));
}

}  // namespace tenon
