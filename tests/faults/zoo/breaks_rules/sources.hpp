// SPDX-License-Identifier: Apache-2.0
//
// Datasets of `x` [B, 4], `labels` [B] and `ids` [B, 3]: one that is map-style, and a stream of two
// shards. And a feature that adds 1.
#pragma once

#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/feature.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/faults/zoo/breaks_rules/fault.hpp"

namespace {

// Makes calls overlap that share memory.
void wait_a_moment() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Writes samples by their numbers.
void write_samples(tenon::BatchWriter& writer, const std::vector<int64_t>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  auto* x = writer.add<float>(0, {count, 4});
  auto* labels = writer.add<int64_t>(1, {count});
  auto* ids = writer.add<int64_t>(2, {count, 3});
  for (const int64_t number : numbers) {
    for (int64_t i = 0; i < 4; ++i) {
      *x++ = static_cast<float>((number * 7 + i * 3) % 31) / 31;
    }
    *labels++ = number % 3;
    for (int64_t i = 0; i < 3; ++i) {
      *ids++ = (number * 5 + i * 11) % 64;
    }
  }
  writer.set_counts(count, 0);
}

void describe_samples(tenon::DatasetInfo& info) {
  info.field("x", {"B", 4}, TENON_F32);
  info.field("labels", {"B"}, TENON_I64);
  info.field("ids", {"B", 3}, TENON_I64);
}

class RuleMap final : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "rule_map";
  static constexpr const char* kSummary = "for tests: numbered samples; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleMap(const Options& options) : fault_(options.fault) {}

  void describe(tenon::DatasetInfo& info) override { describe_samples(info); }
  int64_t size(const tenon_window*) override { return 24; }
  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    std::vector<int64_t> numbers(indices, indices + n);
    if (fault_ == "batches" && numbers.size() > 2 && numbers[1] == numbers[2]) {
      numbers[2] += 1;  // by the place in the batch
    }
    if (fault_ == "threads") {
      shared_ = numbers;
      wait_a_moment();
      numbers.assign(shared_.begin(), shared_.end());
      numbers.resize(n);
    }
    write_samples(writer, numbers);
  }

 private:
  std::string fault_;
  std::vector<int64_t> shared_ = std::vector<int64_t>(64);
};

class RuleStream final : public tenon::StreamDataset {
 public:
  static constexpr const char* kType = "rule_stream";
  static constexpr const char* kSummary = "for tests: two shards of samples; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleStream(const Options& options) : fault_(options.fault) {}

  void describe(tenon::DatasetInfo& info) override {
    describe_samples(info);
    info.shards(kNumShards);
  }
  bool next(const tenon_window*,
            uint32_t shard,
            int64_t max_samples,
            tenon::BatchWriter& writer) override {
    int64_t& cursor = cursors_.at(shard);
    std::vector<int64_t> numbers;
    for (; cursor < kShardSize && static_cast<int64_t>(numbers.size()) < max_samples; ++cursor) {
      numbers.push_back(cursor + (fault_ == "shards" ? 0 : shard * kShardSize));
    }
    write_samples(writer, numbers);
    writer.set_position(std::string(reinterpret_cast<const char*>(&cursor), sizeof cursor));
    return cursor == kShardSize;
  }
  void seek(const tenon_window*, uint32_t shard, const std::string* position) override {
    int64_t at = 0;
    if (position != nullptr && fault_ != "resume") {
      std::memcpy(&at, position->data(), std::min(position->size(), sizeof at));
      TENON_CHECK(
          fault_ == "positions" || (position->size() == sizeof at && at >= 0 && at <= kShardSize),
          "the position is corrupt");
      at = std::clamp<int64_t>(at, 0, kShardSize);
    }
    if (fault_ == "resume" && position != nullptr) {
      TENON_CHECK(position->size() == sizeof at, "the position is corrupt");
    }
    cursors_.at(shard) = at;
  }
  void reset(uint64_t) override { cursors_.assign(kNumShards, 0); }

 private:
  static constexpr uint32_t kNumShards = 2;
  static constexpr int64_t kShardSize = 15;
  std::string fault_;
  std::vector<int64_t> cursors_ = std::vector<int64_t>(kNumShards);
};

class RuleFeature final : public tenon::Feature {
 public:
  static constexpr const char* kType = "rule_feature";
  static constexpr const char* kSummary = "for tests: adds 1; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleFeature(const Options& options) : fault_(options.fault) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    TENON_CHECK(inputs.size() == 1 && inputs[0].dtype == TENON_I64 && inputs[0].num_levels == 0 &&
                    inputs[0].width == 0,
                "the input must be one column of i64, one per sample");
    return inputs;
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    static std::vector<int64_t> shared(64);
    const tenon::Column in = columns.input(0);
    const int64_t samples = in.num_samples();
    const bool is_short = fault_ == "results" && samples == 0;
    auto* const out = columns.output(0).values<int64_t>({is_short ? 1 : samples});
    const auto* const x = in.data<int64_t>();
    for (int64_t i = 0; i < samples; ++i) {
      out[i] = x[i] + 1 + (fault_ == "samples" ? samples : 0);
    }
    if (fault_ == "repeatable" && samples > 0) {
      in.values().mutable_data<int64_t>()[0] = -1;
    }
    if (fault_ == "threads") {
      std::copy_n(out, samples, shared.begin());
      wait_a_moment();
      std::copy_n(shared.begin(), samples, out);
    }
  }

 private:
  std::string fault_;
};

}  // namespace
