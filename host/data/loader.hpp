// SPDX-License-Identifier: Apache-2.0
//
// The microbatches of one window for one rank, in an order that is the same for any number of
// loader threads. A loader knows no epochs and no other windows (see data_stream.hpp). If there is
// a GPU, the returned batches are on it, except host-only fields. The next batch is copied while
// the caller works on the current batch.
// Ranks that divide the positions of the same samples take turns in map style, packed or not: rank
// i mod ranks reads batch i, and sends each other rank its part. In stream style, reads advance the
// source, so each rank reads every batch, and keeps its part.
// Invariants: position() belongs to the last batch returned, never to a batch read ahead; a loader
// that starts there continues with the next batch. In map style, after the same number of batches
// all ranks have the same position.
// Threads: constructed, used and destroyed by one thread, while no other thread uses the source;
// reads are made on separate threads. has_next() and next() are collective calls of the ranks that
// take turns.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/loader_position.hpp"
#include "host/data/pack_groups.hpp"
#include "host/data/pack_plan.hpp"
#include "host/data/part_exchange.hpp"
#include "host/data/rank_sampler.hpp"
#include "host/data/read_ahead.hpp"
#include "host/data/read_plan.hpp"
#include "host/data/read_turns.hpp"
#include "host/device/gpu.hpp"
#include "host/tensor/batch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tenon {

// With packing, rows take the place of samples in these options.
struct LoaderOptions {
  int64_t batch_size = 1;  // samples of one rank's microbatch
  DataRank rank = {};
  Remainder last = Remainder::kShort;
  // Map style: samples of all ranks and microbatches of a step, which Remainder::kDrop keeps
  // complete. 0: one microbatch of all ranks.
  int64_t samples_per_step = 0;
  bool shuffle = false;                     // map style
  uint64_t seed = 0;                        // of the order
  int num_threads = 0;                      // 0: read on demand
  int prefetch = 1;                         // batches read ahead; at least one per thread
  std::optional<int64_t> max_batches = {};  // per loader, or per epoch with DataStream
  Gpu* gpu = nullptr;                       // destination of batches; null: the CPU
  DataRank positions = {};        // the part of each batch's positions that this rank gets
  PartExchange* parts = nullptr;  // among the ranks of `positions`; null: each reads all batches
};

// Returns options for evaluation on the same data: not shuffled, all of it or `max_batches`.
LoaderOptions for_evaluation(const LoaderOptions& training, std::optional<int64_t> max_batches);

class Loader {
 public:
  // Starts reading at `start`: the beginning, or a position() of this window, possibly under other
  // options. In stream style, `start` may hold shards of other ranks. Shards of this rank that it
  // lacks start at their beginning. `source` is borrowed; `window` is copied.
  //
  // Errors   what the dataset returns; data.empty if there are fewer shards than ranks
  Loader(DataSource& source,
         const std::optional<Window>& window,
         uint64_t epoch,
         const LoaderOptions& options,
         const LoaderPosition& start = {});
  // Returns after all running reads have returned.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // True if next() will return a batch or throw the error of its read. Waits if necessary; consumes
  // nothing. Exchanges the parts of the batch with ranks that take turns, and starts to copy it to
  // the GPU.
  bool has_next();

  // Returns the next batch, or nothing at the end of the window. The batch has no samples and no
  // fields if this rank, unlike others, has no part in the last global batch of the window.
  //
  // Errors   what the dataset returned, data.bad_batch, or data.no_positions, at the batch of the
  //          failure, and again at each later call: the same error on all ranks that take turns;
  //          those of PartExchange
  std::optional<Batch> next();

  // Stream style: returns the shard of the batch that next() will return, or nothing at the end of
  // the window. Waits as has_next() does.
  std::optional<uint32_t> next_shard();

  // Returns the position after the last batch returned.
  const LoaderPosition& position() const { return position_; }
  // Batches returned by this loader.
  int64_t num_batches() const { return num_batches_; }

  // Map style: samples of all ranks in the window. Empty in stream style.
  std::optional<int64_t> num_samples() const { return num_samples_; }
  // Map style: number of remaining batches. Empty in stream style, and with packing.
  std::optional<int64_t> num_batches_left() const;
  // Number of samples that Remainder::kDrop drops. Map style: samples of all ranks at the end of
  // the window, known from the start; with packing, known after the last batch. Stream style:
  // samples of short batches at the ends of the shards of this rank, known after these batches.
  int64_t num_dropped() const;
  // Returns the samples of each part of a mix before the position, in this epoch.
  std::vector<int64_t> part_samples() const;
  // With packing: counts of the rows in the batches of this loader, over all ranks.
  const PackCounts& pack_counts() const { return pack_counts_; }
  // With packing: the fingerprint of the window's lengths; otherwise 0.
  uint64_t lengths_fingerprint() const { return lengths_fingerprint_; }

 private:
  void plan_rows(PackedSource& source,
                 const SampleOrder& order,
                 const LoaderOptions& options,
                 const RowOrder& rows);
  void begin_reads(const LoaderOptions& options);
  std::optional<FinishedRead> take_turn();
  void send_parts(FinishedRead& read, int64_t number);
  void receive_part(FinishedRead& read, const ReadTurns::Turn& turn);
  std::optional<FinishedRead> take_own_part();
  void pass(const ReadRequest& read, ReadResult& result);
  void begin_upload();
  void finish_upload(Batch& batch);

  std::optional<Window> window_;  // the plan borrows it
  std::optional<int64_t> max_batches_;
  const DataRank positions_;
  PartExchange* const parts_;
  DataSource& source_;
  std::optional<RankSampler> sampler_;  // map style without packing
  LoaderPosition position_;
  std::optional<PackGroups> groups_;  // with packing; its plan borrows them
  const PackPlan* pack_plan_ = nullptr;
  PackCounts pack_counts_;
  uint64_t lengths_fingerprint_ = 0;
  std::optional<int64_t> num_samples_;
  int64_t num_batches_ = 0;
  int64_t num_dropped_ = 0;
  std::unique_ptr<ReadPlan> plan_;
  ReadTurns* turns_ = nullptr;  // plan_, if ranks take turns
  std::unique_ptr<ReadAhead> reads_;
  Gpu* gpu_;
  std::optional<FinishedRead> ahead_;  // read that has_next() waited for
  std::unique_ptr<Upload> upload_;     // pending copy of its batch to the GPU
};

}  // namespace tenon
