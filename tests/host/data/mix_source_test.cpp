// SPDX-License-Identifier: Apache-2.0

#include "host/data/mix_source.hpp"

#include "host/data/data_stream.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using End = FakeStream::End;

constexpr WhenOneEnds kAllWays[] = {
    WhenOneEnds::kRepeat, WhenOneEnds::kStop, WhenOneEnds::kContinue};

// Map style: sample i is the number base + i.
class Numbers final : public FakeSource {
 public:
  Numbers(int64_t base, int64_t size) : FakeSource(DatasetStyle::kMap), base_(base), size_(size) {
    name_ = "dataset \"numbers from " + std::to_string(base) + "\"";
  }

  void set_field(FieldInfo field) {
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(std::vector{std::move(field)});
  }
  int64_t size(const Window*) override { return size_; }
  void read(const Window*, std::span<const int64_t> indices, tenon_batch_writer& writer) override {
    std::vector<int64_t> samples;
    for (const int64_t index : indices) {
      samples.push_back(base_ + index);
    }
    write_samples(writer, samples);
  }
  std::string place_of(const Window*, int64_t index) override {
    return std::to_string(base_ + index);
  }

 private:
  int64_t base_;
  int64_t size_;
};

// Rows of two fields, one of them as long as the longest row of a read: row i has i % 4 + 1 times
// the number i, then the value for padding.
class Ragged final : public FakeSource {
 public:
  explicit Ragged(bool is_turned) : FakeSource(DatasetStyle::kMap), is_turned_(is_turned) {
    const FieldInfo tokens{.name = "tokens",
                           .dtype = TENON_F64,
                           .axes = {{.name = "B"}, {.name = "T"}, {.name = "", .size = 2}},
                           .pad = -7};
    const FieldInfo length{.name = "length", .dtype = TENON_I64, .axes = {{.name = "B"}}};
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(
        is_turned ? std::vector{length, tokens} : std::vector{tokens, length});
  }

  int64_t size(const Window*) override { return 10; }
  void read(const Window*, std::span<const int64_t> indices, tenon_batch_writer& writer) override {
    const auto n = static_cast<int64_t>(indices.size());
    int64_t longest = 0;
    for (const int64_t index : indices) {
      longest = std::max(longest, index % 4 + 1);
    }
    const std::vector<int64_t> shape = {n, longest, 2};
    void* tokens = nullptr;
    void* length = nullptr;
    CHECK(writer.add(&writer, is_turned_ ? 1 : 0, 3, shape.data(), &tokens) == nullptr);
    CHECK(writer.add(&writer, is_turned_ ? 0 : 1, 1, &n, &length) == nullptr);
    int64_t num_tokens = 0;
    for (int64_t row = 0; row < n; ++row) {
      const int64_t index = indices[static_cast<size_t>(row)];
      static_cast<int64_t*>(length)[row] = index % 4 + 1;
      num_tokens += index % 4 + 1;
      for (int64_t i = 0; i < 2 * longest; ++i) {
        static_cast<double*>(tokens)[2 * longest * row + i] =
            i < 2 * (index % 4 + 1) ? static_cast<double>(index) : -7;
      }
    }
    CHECK(writer.set_counts(&writer, n, num_tokens) == nullptr);
  }

 private:
  bool is_turned_;
};

// A mix with its sources.
struct Mix {
  std::vector<std::unique_ptr<FakeSource>> sources;
  std::vector<double> weights;
  MixOptions options = {.when = WhenOneEnds::kRepeat, .seed = 5, .shuffle = true};

  MixSource make() const {
    std::vector<MixPart> parts;
    for (size_t i = 0; i < sources.size(); ++i) {
      parts.push_back({"part" + std::to_string(i), weights[i], sources[i].get()});
    }
    return {std::move(parts), options};
  }
};

Mix three_maps(WhenOneEnds when) {
  Mix mix;
  mix.sources.push_back(std::make_unique<Numbers>(0, 23));
  mix.sources.push_back(std::make_unique<Numbers>(1000, 7));
  mix.sources.push_back(std::make_unique<Numbers>(2000, 40));
  mix.weights = {0.5, 0.2, 0.3};
  mix.options.when = when;
  return mix;
}

// A stream of three shards, one of two, and a map-style source: a mix of two shards.
Mix two_streams_and_a_map(WhenOneEnds when, End end) {
  Mix mix;
  mix.sources.push_back(std::make_unique<FakeStream>(std::vector<int64_t>{11, 8, 5}, end));
  mix.sources.push_back(std::make_unique<FakeStream>(std::vector<int64_t>{20, 30}, end));
  mix.sources.push_back(std::make_unique<Numbers>(7000, 15));
  mix.weights = {2, 5, 1};
  mix.options.when = when;
  return mix;
}

// The second stream's numbers are the first's too: its rows are told apart by their turns alone,
// so that the tests of streams look at numbers and their counts.
std::multiset<int64_t> as_set(const std::vector<int64_t>& samples) {
  return {samples.begin(), samples.end()};
}

// All samples of the epochs, in order.
std::vector<int64_t> read_epochs(DataSource& source, LoaderOptions options, uint64_t epochs) {
  DataStream stream(source, options);
  std::vector<int64_t> all;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    stream.begin_epoch(epoch);
    while (stream.next_window()) {
      const std::vector<int64_t> samples = drain_samples(stream.loader());
      all.insert(all.end(), samples.begin(), samples.end());
    }
  }
  return all;
}

LoaderOptions loader_options() {
  return {.batch_size = 4, .shuffle = true, .seed = 5};
}

}  // namespace

TEST_CASE("each row of a mix is the sample that its order says", "[data][mix]") {
  for (const WhenOneEnds when : kAllWays) {
    const Mix mix = three_maps(when);
    MixSource source = mix.make();
    const MixOrder order(5, mix.weights, {23, 7, 40}, when);
    const std::vector<int64_t> all = read_epochs(source, loader_options(), 3);
    REQUIRE(all.size() == static_cast<size_t>(3 * order.num_samples()));
    std::map<std::pair<size_t, uint64_t>, std::set<int64_t>> passes;
    for (size_t k = 0; k < all.size(); ++k) {
      const auto n = static_cast<size_t>(order.num_samples());
      const MixOrder::Sample sample = order.at(k / n, static_cast<int64_t>(k % n));
      REQUIRE(all[k] / 1000 == static_cast<int64_t>(sample.source));
      // No pass of a source gives a sample twice.
      REQUIRE(passes[{sample.source, sample.pass}].insert(all[k]).second);
      if (k / n == 2) {  // the current epoch
        CHECK(source.place_of(nullptr, static_cast<int64_t>(k % n)) == std::to_string(all[k]));
      }
    }
    const std::vector<int64_t> sizes = {23, 7, 40};
    for (const auto& [key, samples] : passes) {
      CHECK(samples.size() <= static_cast<size_t>(sizes[key.first]));
      CHECK((*samples.begin() >= 1000 * static_cast<int64_t>(key.first)));
    }
    CHECK(source.part_samples({.cursor = order.num_samples()}) ==
          order.counts(2, order.num_samples()));
  }
}

TEST_CASE("a mix gives the same samples for any batch size, threads and read-ahead",
          "[data][mix]") {
  for (const WhenOneEnds when : kAllWays) {
    const Mix mix = three_maps(when);
    MixSource source = mix.make();
    const std::vector<int64_t> all = read_epochs(source, loader_options(), 2);
    for (const int64_t batch_size : {1, 3, 64}) {
      for (const int threads : {0, 3}) {
        LoaderOptions options = loader_options();
        options.batch_size = batch_size;
        options.num_threads = threads;
        options.prefetch = 5;
        CHECK(read_epochs(source, options, 2) == all);
      }
    }
    CHECK_FALSE(mix.sources.front()->was_unsafe);
  }
}

TEST_CASE("the global order of a mix does not depend on the number of ranks", "[data][mix]") {
  const Mix mix = three_maps(WhenOneEnds::kRepeat);
  MixSource source = mix.make();
  LoaderOptions options = loader_options();
  options.batch_size = 12;
  const std::vector<int64_t> all = read_epochs(source, options, 1);
  for (const int64_t ranks : {2, 3, 4}) {
    std::vector<std::vector<std::vector<int64_t>>> of_rank;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      options.rank = {rank, ranks};
      options.batch_size = 12 / ranks;
      DataStream stream(source, options);
      stream.begin_epoch(0);
      REQUIRE(stream.next_window());
      of_rank.push_back(drain(stream.loader()));
    }
    std::vector<int64_t> together;
    for (size_t batch = 0; batch < of_rank.front().size(); ++batch) {
      for (const auto& batches : of_rank) {
        together.insert(together.end(), batches[batch].begin(), batches[batch].end());
      }
    }
    CHECK(together == all);
  }
}

TEST_CASE("a mix of one source is that source", "[data][mix]") {
  for (const WhenOneEnds when : kAllWays) {
    for (const bool is_shuffled : {true, false}) {
      Mix mix;
      mix.sources.push_back(std::make_unique<Numbers>(0, 37));
      mix.weights = {0.3};
      mix.options = {.when = when, .seed = 5, .shuffle = is_shuffled};
      MixSource source = mix.make();
      Numbers plain(0, 37);
      LoaderOptions options = loader_options();
      options.shuffle = is_shuffled;
      CHECK(read_epochs(source, options, 3) == read_epochs(plain, options, 3));
    }
  }
  for (const End end : {End::kWithLast, End::kAfterLast}) {
    for (const WhenOneEnds when : {WhenOneEnds::kStop, WhenOneEnds::kContinue}) {
      Mix mix;
      mix.sources.push_back(std::make_unique<FakeStream>(std::vector<int64_t>{9, 4, 6}, end));
      mix.weights = {2};
      mix.options.when = when;
      MixSource source = mix.make();
      FakeStream plain({9, 4, 6}, end);
      CHECK(read_epochs(source, loader_options(), 2) == read_epochs(plain, loader_options(), 2));
    }
  }
}

TEST_CASE("a source of weight 0 is not read", "[data][mix]") {
  Mix mix = three_maps(WhenOneEnds::kContinue);
  mix.weights = {0.5, 0, 0.3};
  mix.sources[1] = std::make_unique<Numbers>(1000, 0);  // it need not have samples
  MixSource source = mix.make();
  const std::vector<int64_t> all = read_epochs(source, loader_options(), 1);
  CHECK(all.size() == 63);
  CHECK(mix.sources[1]->num_reads == 0);
}

TEST_CASE("a mix goes on from a saved position like one that never stopped", "[data][mix]") {
  const auto check = [](const Mix& mix) {
    LoaderOptions options = loader_options();
    options.batch_size = 3;
    options.num_threads = 2;
    options.prefetch = 4;
    MixSource whole_source = mix.make();
    DataStream whole(whole_source, options);
    StateTree tree;
    int num_batches = 0;
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      whole.begin_epoch(epoch);
      REQUIRE(whole.next_window());
      while (whole.loader().has_next()) {
        whole.loader().next();
        ++num_batches;
      }
    }
    const std::vector<int64_t> parts = whole.part_samples();
    for (int stop = 0; stop < num_batches; ++stop) {
      MixSource first_source = mix.make();
      DataStream first(first_source, options);
      StateTree saved;
      std::vector<int64_t> rest;
      int seen = 0;
      for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        first.begin_epoch(epoch);
        REQUIRE(first.next_window());
        if (seen == stop) {
          saved = StateTree();
          first.snapshot(saved, "data");
        }
        while (const auto batch = first.loader().next()) {
          ++seen;
          const std::vector<int64_t> samples = samples_of(*batch);
          if (seen > stop) {
            rest.insert(rest.end(), samples.begin(), samples.end());
          }
          if (seen == stop) {
            first.snapshot(saved, "data");
          }
        }
      }
      MixSource second_source = mix.make();
      DataStream second(second_source, options);
      second.load(saved, "data");
      std::vector<int64_t> found;
      while (true) {
        const std::vector<int64_t> samples = drain_samples(second.loader());
        found.insert(found.end(), samples.begin(), samples.end());
        if (*second.epoch() == 1) {
          break;
        }
        second.begin_epoch(1);
        REQUIRE(second.next_window());
      }
      INFO("after " << stop << " of " << num_batches << " batches");
      REQUIRE(found == rest);
      REQUIRE(second.part_samples() == parts);
    }
  };
  for (const WhenOneEnds when : kAllWays) {
    check(three_maps(when));
  }
  for (const End end : {End::kWithLast, End::kAfterLast}) {
    check(two_streams_and_a_map(WhenOneEnds::kStop, end));
    check(two_streams_and_a_map(WhenOneEnds::kContinue, end));
  }
}

TEST_CASE("rows of different lengths are padded with the field's own value", "[data][mix]") {
  Ragged one(false);
  Ragged other(true);
  MixSource source({{"one", 1, &one}, {"other", 1, &other}},
                   {.when = WhenOneEnds::kContinue, .seed = 1, .shuffle = true});
  Loader loader(source, std::nullopt, 0, {.batch_size = 6});
  int64_t num_rows = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    const at::Tensor& tokens = *batch->find("tokens");
    const auto* const lengths = batch->find("length")->const_data_ptr<int64_t>();
    REQUIRE(tokens.size(0) == batch->samples);
    const int64_t width = tokens.size(1);
    CHECK(width == *std::max_element(lengths, lengths + batch->samples));
    const auto* const values = tokens.const_data_ptr<double>();
    int64_t num_tokens = 0;
    for (int64_t row = 0; row < batch->samples; ++row) {
      num_tokens += lengths[row];
      const double number = values[row * width * 2];
      CHECK(static_cast<int64_t>(number) % 4 + 1 == lengths[row]);
      for (int64_t i = 0; i < 2 * width; ++i) {
        CHECK(values[row * width * 2 + i] == (i < 2 * lengths[row] ? number : -7));
      }
    }
    CHECK(batch->tokens == num_tokens);
    num_rows += batch->samples;
  }
  CHECK(num_rows == 20);
}

TEST_CASE("streams and numbered samples are mixed shard by shard", "[data][mix]") {
  for (const End end : {End::kWithLast, End::kAfterLast}) {
    const Mix mix = two_streams_and_a_map(WhenOneEnds::kContinue, end);
    MixSource source = mix.make();
    CHECK(source.info().style == DatasetStyle::kStream);
    CHECK(source.info().num_shards == 2);
    std::multiset<int64_t> want;
    for (const auto& [shard, size] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 11}, {1, 8}, {2, 5}, {0, 20}, {1, 30}, {7, 15}}) {
      for (int64_t i = 0; i < size; ++i) {
        want.insert(1000 * shard + i);
      }
    }
    CHECK(as_set(read_epochs(source, loader_options(), 1)) == want);
    // Shares hold until the first source ends: the first 16 of a shard, by weights 2, 5 and 1.
    LoaderOptions options = loader_options();
    options.batch_size = 16;
    DataStream stream(source, options);
    stream.begin_epoch(0);
    REQUIRE(stream.next_window());
    stream.loader().next();
    const std::vector<int64_t> taken = stream.part_samples();
    CHECK(std::abs(taken[0] - 4) < 4);
    CHECK(std::abs(taken[1] - 10) < 4);
    CHECK(std::abs(taken[2] - 2) < 4);
    CHECK(taken[0] + taken[1] + taken[2] == 16);
  }
}

TEST_CASE(
    "what a shard of a mix of streams gives depends on no batch size, and not on how ends "
    "are told",
    "[data][mix]") {
  for (const WhenOneEnds when : {WhenOneEnds::kStop, WhenOneEnds::kContinue}) {
    const auto shards_of = [&](int64_t batch_size, End end) {
      const Mix mix = two_streams_and_a_map(when, end);
      MixSource source = mix.make();
      std::vector<std::vector<int64_t>> shards;
      for (int64_t rank = 0; rank < 2; ++rank) {
        LoaderOptions options = loader_options();
        options.batch_size = batch_size;
        options.rank = {rank, 2};
        shards.push_back(read_epochs(source, options, 1));
      }
      return shards;
    };
    const auto want = shards_of(1, End::kWithLast);
    CHECK(want[0].size() > 10);
    for (const int64_t batch_size : {1, 2, 5, 100}) {
      for (const End end : {End::kWithLast, End::kAfterLast}) {
        CHECK(shards_of(batch_size, end) == want);
      }
    }
  }
}

TEST_CASE("sources that cannot be mixed are refused before anything is read", "[data][mix]") {
  Numbers first(0, 10);
  Numbers second(1000, 10);
  const auto mix = [&](double weight, DataSource& other, WhenOneEnds when = WhenOneEnds::kRepeat) {
    const MixSource made({{"web", 1, &first}, {"books", weight, &other}}, {.when = when});
  };
  CHECK_NOTHROW(mix(1, second));
  CHECK_THROWS_WITH(
      mix(-1, second),
      contains_text("[data.bad_mix]") && contains_text("the weight of \"books\" is -1"));
  CHECK_THROWS_WITH(mix(std::numeric_limits<double>::quiet_NaN(), second),
                    contains_text("the weight of \"books\" is nan"));
  CHECK_THROWS_WITH(MixSource({{"web", 0, &first}}, {}), contains_text("all weights are 0"));

  Numbers empty(0, 0);
  CHECK_THROWS_WITH(mix(1, empty), contains_text("[data.empty]") && contains_text("\"books\""));

  const FieldInfo field = first.info().schema->front();
  const auto with = [&](auto&& change) {
    FieldInfo changed = field;
    change(changed);
    second.set_field(changed);
    return [&] { mix(1, second); };
  };
  CHECK_THROWS_WITH(with([](FieldInfo& f) { f.dtype = TENON_F32; })(),
                    contains_text("field \"sample\" is i64 [B] in \"web\" (dataset \"numbers from "
                                  "0\") and f32 [B] in \"books\" (dataset \"numbers from 1000\")"));
  CHECK_THROWS_WITH(with([](FieldInfo& f) { f.axes.push_back({.name = "T", .size = 3}); })(),
                    contains_text("[data.bad_mix]") && contains_text("[B, 3]"));
  CHECK_THROWS_WITH(with([](FieldInfo& f) { f.pad = 1; })(), contains_text("padded with 1"));
  CHECK_THROWS_WITH(with([](FieldInfo& f) { f.name = "row"; })(),
                    contains_text("has no field \"sample\", which \"web\""));
  FieldInfo flat = field;
  flat.axes.front().name = "N";
  second.set_field(flat);
  CHECK_THROWS_WITH(MixSource({{"books", 1, &second}}, {}),
                    contains_text("its first axis is not B"));

  FakeMap windows(10);
  windows.set_windows({make_window(1, "a", 10)});
  CHECK_THROWS_WITH(mix(1, windows), contains_text("has windows"));
  FakeStream stream({5}, End::kWithLast);
  CHECK_THROWS_WITH(mix(1, stream), contains_text("is a stream, which cannot restart"));
  CHECK_NOTHROW(mix(1, stream, WhenOneEnds::kStop));
}

TEST_CASE("a mix is resumed as it was, or not at all", "[data][mix]") {
  const auto saved = [](const Mix& mix) {
    MixSource source = mix.make();
    DataStream stream(source, loader_options());
    stream.begin_epoch(0);
    REQUIRE(stream.next_window());
    stream.loader().next();
    StateTree tree;
    stream.snapshot(tree, "data");
    return tree;
  };
  const auto load = [](const Mix& mix, const StateTree& tree) {
    MixSource source = mix.make();
    DataStream(source, loader_options()).load(tree, "data");
  };
  const StateTree tree = saved(three_maps(WhenOneEnds::kRepeat));
  CHECK_NOTHROW(load(three_maps(WhenOneEnds::kRepeat), tree));
  CHECK_THROWS_WITH(load(three_maps(WhenOneEnds::kStop), tree), contains_text("[data.changed]"));
  Mix other = three_maps(WhenOneEnds::kRepeat);
  other.weights[0] = 0.25;
  CHECK_THROWS_WITH(load(other, tree),
                    contains_text("[data.changed]") && contains_text("0.25 of 23 samples"));
  Numbers plain(0, 23);
  CHECK_THROWS_WITH(DataStream(plain, loader_options()).load(tree, "data"),
                    contains_text("it is no mix, and was \"repeat\" of"));
}

TEST_CASE("damaged positions of a mix of streams are refused", "[data][mix]") {
  const std::string good =
      encode({.turn = 3, .parts = {{.taken = 2, .position = "abc"}, {.taken = 1}}});
  CHECK(decode_mix_position(good, 2).parts[0].position == "abc");
  CHECK_THROWS_WITH(decode_mix_position(good, 3), contains_text("[data.bad_state]"));
  CHECK_THROWS_WITH(decode_mix_position(good + "x", 2), contains_text("[data.bad_state]"));
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK_THROWS_WITH(decode_mix_position(std::string_view(good).substr(0, size), 2),
                      contains_text("[data.bad_state]"));
  }
  CHECK_THROWS_WITH(decode_mix_position(encode({.turn = INT64_MAX, .parts = {{}, {}}}), 2),
                    contains_text("[data.bad_state]"));
}

}  // namespace tenon
