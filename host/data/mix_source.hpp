// SPDX-License-Identifier: Apache-2.0
//
// A mix: several sources read as one, each in proportion to its weight.
// If all sources are map style, so is the mix: an index is a position in the order of
// mix_order.hpp, and each source is shuffled separately.
// If any source is a stream, the mix is a stream with as many shards as the stream with the fewest.
// A shard of the mix has a separate interleave. It reads samples p of a map-style source with p mod
// shards = shard, and shards s of a stream with s mod shards = shard, in sequence.
// A mix has no windows. component_factory.hpp handles nested options.
// Invariants: rows come in the order of turns; the sample at each turn depends only on seed,
// weights, sizes and shards, never on batches, threads or ranks; the first source of a mix has the
// same order as without a mix.
// Threads: as in DataSource.

#pragma once

#include "host/data/batch_rows.hpp"
#include "host/data/data_source.hpp"
#include "host/data/interleave.hpp"
#include "host/data/mix_order.hpp"
#include "host/data/mix_position.hpp"
#include "host/data/order.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// A source of a mix.
struct MixPart {
  std::string name;
  double weight = 1.0;           // not negative; only ratios matter; 0: not read
  DataSource* source = nullptr;  // borrowed
};

struct MixOptions {
  WhenOneEnds when = WhenOneEnds::kRepeat;
  uint64_t seed = 0;     // of turns and orders; as LoaderOptions::seed for a plain source
  bool shuffle = false;  // for map-style sources
};

class MixSource final : public DataSource {
 public:
  // Errors   data.bad_mix, naming the sources: no weight above 0, fields that differ or whose rows
  //          cannot be combined, windows, a stream that would have to repeat, an endless epoch;
  //          data.empty for a source of positive weight without samples; errors of `size`
  // Threads  [main]
  MixSource(std::vector<MixPart> parts, const MixOptions& options);

  const std::string& name() const override { return name_; }
  const DataSourceInfo& info() const override { return info_; }
  int64_t size(const Window* window) override;
  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override;
  bool next(const Window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon_batch_writer& writer) override;
  void seek(const Window* window,
            uint32_t shard,
            const std::optional<std::string>& position) override;
  std::optional<Window> next_window() override { return std::nullopt; }
  void reset(uint64_t epoch) override;
  std::span<const MixPartInfo> parts() const override { return part_infos_; }
  std::vector<int64_t> part_samples(const LoaderPosition& position) const override;
  std::string order_text() const override;
  void lengths(const Window* window,
               std::span<const int64_t> indices,
               std::span<int32_t> out) override;
  LengthSummary length_summary(const Window* window) override;
  std::size_t part_of(int64_t index) const override;
  std::string place_of(const Window* window, int64_t index) override;

 private:
  // Samples of each source, and their positions among the indices of the mix.
  struct Split {
    std::vector<std::vector<int64_t>> samples;
    std::vector<std::vector<int64_t>> rows;
  };
  struct Shard {
    MixShardPosition at;
    std::optional<Interleave> turns;  // of the remaining sources
  };

  void check_parts() const;
  void join_schemas();
  bool is_map(std::size_t part) const;
  SampleOrder order_of(std::size_t part, uint64_t pass) const;
  Split split(std::span<const int64_t> indices) const;
  void begin_shards();
  Shard shard_at(uint32_t number, MixShardPosition at) const;
  bool has_left(std::size_t part, uint32_t number, const MixPartPosition& at) const;
  BatchPart read_indices(std::size_t part, const std::vector<int64_t>& indices);
  BatchPart read_some(std::size_t part, uint32_t number, MixPartPosition& at, int64_t most);
  BatchPart read_stream(std::size_t part, uint32_t number, MixPartPosition& at, int64_t most);

  std::vector<MixPart> parts_;
  std::vector<MixPartInfo> part_infos_;
  std::vector<std::vector<std::size_t>> fields_;  // by part: from mix fields to part fields
  MixOptions options_;
  std::string name_;
  DataSourceInfo info_;
  std::optional<MixOrder> order_;  // map style
  std::vector<Shard> shards_;      // stream style
  uint64_t epoch_ = 0;
};

}  // namespace tenon
