// SPDX-License-Identifier: Apache-2.0
//
// A stream-style dataset. Each shard counts its samples from 0; its position is the count as text.
// `sample_id` is 1000000 * shard + count. With windows, the count continues through all windows of
// an epoch.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sample_values.hpp"

namespace {

constexpr int64_t kShardStride = 1000000;

struct CounterStreamOptions {
  std::vector<int64_t> shard_sizes = {8, 8};
  int64_t windows = 0;
  int64_t dim = 4;
  int64_t num_classes = 3;
};

class CounterStream : public tenon::StreamDataset {
 public:
  static constexpr const char* kType = "counter_stream";
  static constexpr const char* kSummary = "test plugin: shards of counted samples";
  using Options = CounterStreamOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("shard_sizes", &Options::shard_sizes)
        .min(0)
        .max(kShardStride)
        .min_items(1)
        .doc("samples per shard, in an epoch or in each window");
    binder.field("windows", &Options::windows).min(0).doc("windows per epoch; 0: none");
    binder.field("dim", &Options::dim).min(1).doc("size of x");
    binder.field("num_classes", &Options::num_classes).min(1).doc("number of labels");
  }

  explicit CounterStream(const Options& options)
      : options_(options),
        fields_(options.dim, options.num_classes),
        cursors_(options.shard_sizes.size(), 0) {}

  void describe(tenon::DatasetInfo& info) override {
    fields_.declare(info);
    info.shards(static_cast<uint32_t>(cursors_.size()));
    if (options_.windows > 0) {
      info.windows();
    }
  }

  bool next(const tenon_window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon::BatchWriter& writer) override {
    TENON_CHECK(shard < cursors_.size(), "no shard ", shard);
    int64_t& cursor = cursors_[shard];
    const int64_t end = start_of(window, shard) + options_.shard_sizes[shard];
    const int64_t n = std::min(max_samples, end - cursor);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) {
      ids.push_back(shard * kShardStride + cursor + i);
    }
    cursor += n;
    if (n > 0) {
      fields_.write(ids, writer);
    } else {
      writer.set_counts(0, 0);
    }
    writer.set_position(std::to_string(cursor));
    return cursor == end;
  }

  void seek(const tenon_window* window, uint32_t shard, const std::string* position) override {
    TENON_CHECK(shard < cursors_.size(), "no shard ", shard);
    cursors_[shard] = position == nullptr ? start_of(window, shard) : std::stoll(*position);
  }

  bool next_window(tenon::Window& out) override {
    if (next_window_ == options_.windows) {
      return false;
    }
    out.id = static_cast<uint64_t>(next_window_);
    out.label = "window " + std::to_string(next_window_);
    ++next_window_;
    return true;
  }

  void reset(uint64_t) override {
    next_window_ = 0;
    std::fill(cursors_.begin(), cursors_.end(), 0);
  }

 private:
  int64_t start_of(const tenon_window* window, uint32_t shard) const {
    return window == nullptr ? 0 : static_cast<int64_t>(window->id) * options_.shard_sizes[shard];
  }

  Options options_;
  SampleFields fields_;
  std::vector<int64_t> cursors_;  // samples read from each shard in this epoch
  int64_t next_window_ = 0;
};

}  // namespace

TENON_PLUGIN(CounterStream)
