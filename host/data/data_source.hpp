// SPDX-License-Identifier: Apache-2.0
//
// The source of batches for loaders: the functions of a dataset (dataset.h defines the contract of
// each) with errors as exceptions. dataset_proxy.hpp implements it for the dataset of a plugin.

#pragma once

#include <tenon/dataset.h>

#include "host/data/loader_position.hpp"
#include "host/data/window.hpp"
#include "host/tensor/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class PackedSource;

// The fields of all batches of a source, in order.
using BatchSchema = std::shared_ptr<const std::vector<FieldInfo>>;

enum class DatasetStyle { kMap, kStream };

struct DataSourceInfo {
  DatasetStyle style = DatasetStyle::kMap;
  bool has_windows = false;
  uint32_t num_shards = 1;  // stream style
  BatchSchema schema;
  // Map style: indices are positions in a fixed order that the source itself defines, as in a mix.
  // The host does not shuffle them.
  bool has_own_order = false;
  // Map style: lengths() is available.
  bool has_lengths = false;
};

class DataSource;

// Lengths of all samples of a window.
struct LengthSummary {
  int64_t longest = 0;            // tokens of the longest sample; 0 without samples
  int64_t sample = 0;             // its index in `source`
  std::string source;             // the dataset that has it, for messages
  DataSource* dataset = nullptr;  // this dataset, which knows the sample's place
  uint64_t fingerprint = 0;       // equal lengths in equal order have equal fingerprints
};

// One of the sources that a mix reads.
struct MixPartInfo {
  std::string name;
  std::optional<int64_t> size;  // samples of one pass; absent for a stream
  bool has_lengths = false;
};

// What a source reports beside its batches.
struct SourceReport {
  struct BadWindow {
    uint64_t id = 0;
    std::string label;
    std::string why;
  };
  std::vector<std::string> left_out;        // lines about data that it does not read
  std::vector<BadWindow> bad_windows = {};  // that cannot be read, found when the run started
};

class DataSource {
 public:
  virtual ~DataSource() = default;

  // Returns the name for messages: `dataset "text" (plugin ...)`.
  virtual const std::string& name() const = 0;
  virtual const DataSourceInfo& info() const = 0;

  // `window` is null for a source without windows, here and below.

  // Map style: returns the number of samples; never negative.
  //
  // Threads  [main]
  virtual int64_t size(const Window* window) = 0;
  // Map style: reads these samples, in this order, into one batch.
  //
  // Threads  [worker]
  virtual void read(const Window* window,
                    std::span<const int64_t> indices,
                    tenon_batch_writer& writer) = 0;
  // Stream style: reads up to `max_samples` samples of a shard. Returns true at the end of the
  // shard; the batch then holds the remaining samples, possibly none.
  //
  // Threads  [worker]; different shards concurrently, one shard never
  virtual bool next(const Window* window,
                    uint32_t shard,
                    int64_t max_samples,
                    tenon_batch_writer& writer) = 0;
  // Stream style: moves a shard to a position that a read returned, or to its start.
  //
  // Threads  [main], while no read is running
  virtual void seek(const Window* window,
                    uint32_t shard,
                    const std::optional<std::string>& position) = 0;
  // With windows: returns the next window of the epoch, a pending window if there is none yet, or
  // nothing at the end.
  //
  // Threads  [main], while no read is running
  virtual std::optional<Window> next_window() = 0;
  // Starts an epoch: windows and streams start over.
  //
  // Threads  [main], while no read is running
  virtual void reset(uint64_t epoch) = 0;

  // Threads  [main], while no read is running
  virtual SourceReport report() { return {}; }

  // Returns the sources of a mix; empty for any other source.
  virtual std::span<const MixPartInfo> parts() const { return {}; }
  // Returns the samples of each part before a position in this epoch.
  //
  // Threads  [main]
  virtual std::vector<int64_t> part_samples(const LoaderPosition& /*position*/) const { return {}; }
  // Describes what the order of samples depends on, except their number; empty if nothing.
  virtual std::string order_text() const { return ""; }

  // With DataSourceInfo::has_lengths: sets `out` to the tokens of these samples, each from 1 to
  // 2^31 - 1.
  //
  // Errors   data.bad_length, errors of the dataset
  // Threads  [main]
  virtual void lengths(const Window* /*window*/,
                       std::span<const int64_t> /*indices*/,
                       std::span<int32_t> /*out*/) {}
  // Same, about all samples of the window.
  virtual LengthSummary length_summary(const Window* /*window*/) { return {}; }
  // Returns the number of the part of a mix that has a sample.
  //
  // Threads  [worker]
  virtual std::size_t part_of(int64_t /*index*/) const { return 0; }
  // Map style: returns the place of a sample in the user's data, for messages, such as
  // "chats.jsonl, line 5"; "" if it is unknown.
  //
  // Threads  [main]
  virtual std::string place_of(const Window* /*window*/, int64_t /*index*/) { return ""; }
  // Returns this source if its fields are those of rows, into which loaders pack its samples;
  // otherwise null.
  virtual PackedSource* packed() { return nullptr; }
};

// Returns the place of a sample for the end of a message, " (chats.jsonl, line 5)"; "" if it is
// unknown.
//
// Threads  [main]
inline std::string place_note(DataSource& source, const Window* window, int64_t index) {
  const std::string place = source.place_of(window, index);
  return place.empty() ? "" : " (" + place + ")";
}

}  // namespace tenon
