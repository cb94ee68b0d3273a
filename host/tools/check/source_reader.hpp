// SPDX-License-Identifier: Apache-2.0
//
// Reads batches of a dataset for checks: of the first epoch, in its first window with samples.
// Threads: one at a time, except for functions that say otherwise.
#pragma once

#include "host/data/data_source.hpp"
#include "host/tensor/batch.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class Subject;

// What one read returned.
struct ReadBatch {
  Batch batch;
  std::optional<std::string> position = {};  // after it, of a stream
  bool is_end = false;
};

// True if both have the same fields, to the bit.
bool is_same_batch(const Batch& a, const Batch& b);

class SourceReader {
 public:
  // Starts the epoch, and finds the window. `name` is that of the component.
  //
  // Owner  the arguments are borrowed
  SourceReader(Subject& subject, std::string name, DataSource& source);

  const DataSource& source() const { return source_; }
  bool is_map() const { return source_.info().style == DatasetStyle::kMap; }
  // False if the dataset has windows, and none of them has samples yet.
  bool can_read() const { return !source_.info().has_windows || window_.has_value(); }
  // At most kMaxShards.
  uint32_t num_shards() const;
  int64_t size();

  std::vector<int32_t> lengths(const std::vector<int64_t>& indices);
  ReadBatch read(const std::vector<int64_t>& indices);
  ReadBatch next(uint32_t shard, int64_t max_samples);
  void seek(uint32_t shard, const std::optional<std::string>& position);

  // As above, by several threads at once, after begin_calls().
  void begin_calls(const std::string& what);
  ReadBatch read_at_once(const std::vector<int64_t>& indices);
  ReadBatch next_at_once(uint32_t shard, int64_t max_samples);

  // Returns the first batch of at most `samples` samples; none if there is none.
  std::optional<Batch> first_batch(int64_t samples);
  // Returns the first batches of at most `samples` samples each; fewer at the end of the data.
  std::vector<Batch> first_batches(int64_t samples, std::size_t most);

  static constexpr uint32_t kMaxShards = 4;

 private:
  const Window* window() const { return window_ ? &*window_ : nullptr; }

  Subject& subject_;
  std::string name_;
  DataSource& source_;
  std::optional<Window> window_;
};

}  // namespace tenon
