// SPDX-License-Identifier: Apache-2.0
//
// Several sources read as one, each in proportion to its weight.
// Where all of them are map style, so is the mix: a number to read is a position of mix_order.hpp's
// order, and each source is shuffled for itself. As soon as one is a stream, the mix is one too, of
// as many shards as the stream with the fewest: a shard of the mix reads, in the turns of its own
// interleave, the samples p of a map-style source with p mod shards = shard, and the shards s of a
// stream with s mod shards = shard, one after the other.
// Not here: windows (a mix has none) and what is nested in options (component_factory.hpp).
// Invariants: rows come in the order of turns; which sample stands at which turn depends on seed,
// weights, sizes and shards alone, never on batches, threads or ranks; the first source of a mix
// is read in the order that it has alone.
// Threads: as DataSource says.

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
  double weight = 1.0;           // not negative; only ratios count, and one of 0 is not read
  DataSource* source = nullptr;  // borrowed
};

struct MixOptions {
  WhenOneEnds when = WhenOneEnds::kRepeat;
  uint64_t seed = 0;  // of turns and of orders; LoaderOptions::seed for the order of a plain source
  bool shuffle = false;  // map-style sources
};

class MixSource final : public DataSource {
 public:
  // Errors   data.bad_mix, naming the sources: no weight above 0, fields that differ or whose rows
  //          cannot be put together, windows, a stream that would have to repeat, an epoch without
  //          end; data.empty for a source of weight above 0 without a sample; what `size` returns
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

 private:
  struct Shard {
    MixShardPosition at;
    std::optional<Interleave> turns;  // of the sources that are left
  };

  void check_parts() const;
  void join_schemas();
  bool is_map(std::size_t part) const;
  SampleOrder order_of(std::size_t part, uint64_t pass) const;
  void begin_shards();
  Shard shard_at(uint32_t number, MixShardPosition at) const;
  bool has_left(std::size_t part, uint32_t number, const MixPartPosition& at) const;
  BatchPart read_indices(std::size_t part, const std::vector<int64_t>& indices);
  BatchPart read_some(std::size_t part, uint32_t number, MixPartPosition& at, int64_t most);
  BatchPart read_stream(std::size_t part, uint32_t number, MixPartPosition& at, int64_t most);

  std::vector<MixPart> parts_;
  std::vector<MixPartInfo> part_infos_;
  std::vector<std::vector<std::size_t>> fields_;  // by part, from the mix's fields to its own
  MixOptions options_;
  std::string name_;
  DataSourceInfo info_;
  std::optional<MixOrder> order_;  // map style
  std::vector<Shard> shards_;      // stream style
  uint64_t epoch_ = 0;
};

}  // namespace tenon
