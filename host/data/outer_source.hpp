// SPDX-License-Identifier: Apache-2.0
//
// The base of sources that change the fields of another source. Order, positions, windows and
// lengths are those of that source, so all functions that concern them forward to it.
// Threads: as in DataSource.

#pragma once

#include "host/data/data_source.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class OuterSource : public DataSource {
 public:
  const std::string& name() const override { return source_.name(); }
  const DataSourceInfo& info() const override { return info_; }
  int64_t size(const Window* window) override { return source_.size(window); }
  void seek(const Window* window,
            uint32_t shard,
            const std::optional<std::string>& position) override {
    source_.seek(window, shard, position);
  }
  std::optional<Window> next_window() override { return source_.next_window(); }
  void reset(uint64_t epoch) override { source_.reset(epoch); }
  SourceReport report() override { return source_.report(); }
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
  std::string place_of(const Window* window, int64_t index) override {
    return source_.place_of(window, index);
  }

 protected:
  // `source` is borrowed. A subclass replaces info_.schema.
  explicit OuterSource(DataSource& source) : source_(source), info_(source.info()) {}

  DataSource& source_;
  DataSourceInfo info_;
};

}  // namespace tenon
