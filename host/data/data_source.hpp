// SPDX-License-Identifier: Apache-2.0
//
// Where batches come from, as the loaders see it: the functions of a dataset (dataset.h has the
// contract of each) with errors as exceptions. dataset_proxy.hpp makes one of a plugin's dataset.

#pragma once

#include <tenon/dataset.h>

#include "host/data/loader_position.hpp"
#include "host/data/window.hpp"
#include "host/tensor/batch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// What all batches of a source hold, in this order.
using BatchSchema = std::shared_ptr<const std::vector<FieldInfo>>;

enum class DatasetStyle { kMap, kStream };

struct DataSourceInfo {
  DatasetStyle style = DatasetStyle::kMap;
  bool has_windows = false;
  uint32_t num_shards = 1;  // stream style
  BatchSchema schema;
  // Map style: the numbers to read are places in an order that the source keeps itself, and which
  // nobody else changes. So it is with a mix.
  bool has_own_order = false;
};

// One of the sources that a mix reads.
struct MixPartInfo {
  std::string name;
  std::optional<int64_t> size;  // samples of one pass; none for a stream
};

class DataSource {
 public:
  virtual ~DataSource() = default;

  // For messages: `dataset "text" (plugin ...)`.
  virtual const std::string& name() const = 0;
  virtual const DataSourceInfo& info() const = 0;

  // `window` is null for a source without windows, here and below.

  // Map style: the number of samples; never negative.
  //
  // Threads  [main]
  virtual int64_t size(const Window* window) = 0;
  // Map style: reads these samples, in this order, into one batch.
  //
  // Threads  [worker]
  virtual void read(const Window* window,
                    std::span<const int64_t> indices,
                    tenon_batch_writer& writer) = 0;
  // Stream style: reads up to `max_samples` of a shard. True at the shard's end, where the batch
  // holds what was left, maybe nothing.
  //
  // Threads  [worker]; different shards at once, one shard never
  virtual bool next(const Window* window,
                    uint32_t shard,
                    int64_t max_samples,
                    tenon_batch_writer& writer) = 0;
  // Stream style: puts a shard at a position that a read gave, or at the start.
  //
  // Threads  [main], while no read is under way
  virtual void seek(const Window* window,
                    uint32_t shard,
                    const std::optional<std::string>& position) = 0;
  // With windows: the next one of the epoch, a pending one if there is none yet, or none.
  //
  // Threads  [main], while no read is under way
  virtual std::optional<Window> next_window() = 0;
  // A new epoch: windows and streams start over.
  //
  // Threads  [main], while no read is under way
  virtual void reset(uint64_t epoch) = 0;

  // The sources that a mix reads; none for a source that is no mix.
  virtual std::span<const MixPartInfo> parts() const { return {}; }
  // The samples of each part that lie before a position of this epoch.
  //
  // Threads  [main]
  virtual std::vector<int64_t> part_samples(const LoaderPosition& /*position*/) const { return {}; }
  // What the order of samples depends on beside their number, for people; "" where it is nothing.
  virtual std::string order_text() const { return ""; }
};

}  // namespace tenon
