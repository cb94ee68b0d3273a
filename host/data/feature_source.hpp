// SPDX-License-Identifier: Apache-2.0
//
// A source whose batches have the columns of features in addition to those of another source. Reads
// that source, then computes the features, on the same thread. Order, positions and windows are
// those of the source.
// Threads: as in DataSource.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/feature_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class FeatureSource final : public DataSource {
 public:
  // `source` is borrowed; `graph` is over its fields.
  FeatureSource(DataSource& source, const FeatureGraph& graph);

  const std::string& name() const override { return source_.name(); }
  const DataSourceInfo& info() const override { return info_; }
  int64_t size(const Window* window) override { return source_.size(window); }
  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override;
  bool next(const Window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon_batch_writer& writer) override;
  void seek(const Window* window,
            uint32_t shard,
            const std::optional<std::string>& position) override {
    source_.seek(window, shard, position);
  }
  std::optional<Window> next_window() override { return source_.next_window(); }
  void reset(uint64_t epoch) override { source_.reset(epoch); }
  std::span<const MixPartInfo> parts() const override { return source_.parts(); }
  std::vector<int64_t> part_samples(const LoaderPosition& position) const override {
    return source_.part_samples(position);
  }
  std::string order_text() const override { return source_.order_text(); }
  void lengths(const Window* window,
               std::span<const int64_t> indices,
               std::span<int32_t> out) override {
    source_.lengths(window, indices, out);
  }
  LengthSummary length_summary(const Window* window) override {
    return source_.length_summary(window);
  }
  std::size_t part_of(int64_t index) const override { return source_.part_of(index); }

 private:
  void write(const Batch& batch, tenon_batch_writer& writer) const;

  DataSource& source_;
  const FeatureGraph& graph_;
  DataSourceInfo info_;
};

}  // namespace tenon
