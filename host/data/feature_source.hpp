// SPDX-License-Identifier: Apache-2.0
//
// A source whose batches have the columns of features in addition to those of another source. Reads
// that source, then computes the features, on the same thread. Order, positions and windows are
// those of the source.
// Threads: as in DataSource.

#pragma once

#include "host/data/feature_graph.hpp"
#include "host/data/outer_source.hpp"

#include <cstdint>
#include <span>

namespace tenon {

class FeatureSource final : public OuterSource {
 public:
  // `source` is borrowed; `graph` is over its fields.
  FeatureSource(DataSource& source, const FeatureGraph& graph);

  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override;
  bool next(const Window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon_batch_writer& writer) override;

 private:
  void write(const Batch& batch, tenon_batch_writer& writer) const;

  const FeatureGraph& graph_;
};

}  // namespace tenon
