// SPDX-License-Identifier: Apache-2.0
//
// The microbatches of one window for one rank, in an order that is the same for any number of
// loader threads. It knows no epochs and no other windows (data_stream.hpp does). Where there is a
// GPU, the batches it hands out are on it, except fields that are the host's alone; the next one
// is copied while the caller works on the last. Invariants: position() is that of the last batch
// handed out, never of one read ahead; a loader that starts there continues with the very next
// batch. In map style, after the same number of batches all ranks have the same position. Threads:
// constructed, used and destroyed by one thread, while no other uses the source; reads are made on
// its own threads.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/deal.hpp"
#include "host/data/loader_position.hpp"
#include "host/data/read_ahead.hpp"
#include "host/data/read_plan.hpp"
#include "host/device/gpu.hpp"
#include "host/tensor/batch.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace tenon {

struct LoaderOptions {
  int64_t batch_size = 1;  // samples of one rank's microbatch
  DataRank rank = {};
  Remainder last = Remainder::kShort;
  // Of all ranks and microbatches of a step: what Remainder::kDrop keeps whole, in map style. 0:
  // one microbatch of all ranks.
  int64_t samples_per_step = 0;
  bool shuffle = false;                     // map style
  uint64_t seed = 0;                        // of the order
  int num_threads = 0;                      // 0: read when asked
  int prefetch = 1;                         // batches read ahead; at least one a thread
  std::optional<int64_t> max_batches = {};  // a loader's, or with DataStream an epoch's
  Gpu* gpu = nullptr;                       // where batches go; null leaves them on the CPU
};

// The same data as in training, for evaluation: in its own order, whole, or `max_batches` of it.
LoaderOptions for_evaluation(const LoaderOptions& training, std::optional<int64_t> max_batches);

class Loader {
 public:
  // Starts reading at `start`: the beginning, or a position() of this window, maybe under other
  // options. In stream style `start` may hold shards of other ranks, and lack some of this one's,
  // which then begin at their start. `source` is borrowed; `window` is copied.
  //
  // Errors   what the dataset returns; data.empty if there are fewer shards than ranks
  Loader(DataSource& source,
         const std::optional<Window>& window,
         uint64_t epoch,
         const LoaderOptions& options,
         const LoaderPosition& start = {});
  // Returns when the reads under way have.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // True if next() will give a batch, or throw what reading it threw. Waits where that is not known
  // yet; consumes nothing. Begins to copy the batch to the GPU.
  bool has_next();

  // The next batch, or none at the window's end. It has no samples, and no fields, where this rank
  // has no part in the last global batch of the window; the others have.
  //
  // Errors   what the dataset returned, or data.bad_batch, at the batch where it arose; again at
  //          each later call
  std::optional<Batch> next();

  // What has been consumed.
  const LoaderPosition& position() const { return position_; }
  // Batches handed out by this loader.
  int64_t num_batches() const { return num_batches_; }

  // Map style: samples in the window, of all ranks. None in stream style.
  std::optional<int64_t> num_samples() const;
  // Map style: batches that are still to come. None in stream style.
  std::optional<int64_t> num_batches_left() const;
  // Samples that Remainder::kDrop leaves out: in map style those at the window's end, of all ranks,
  // known from the beginning; in stream style those of short batches at the ends of this rank's
  // shards, known when they have been passed.
  int64_t num_dropped() const { return num_dropped_; }

 private:
  void pass(const ReadRequest& read, ReadResult& result);
  void begin_upload();
  void finish_upload(Batch& batch);

  std::optional<Window> window_;  // the plan borrows it
  std::optional<int64_t> max_batches_;
  std::optional<Deal> deal_;  // map style
  LoaderPosition position_;
  int64_t num_batches_ = 0;
  int64_t num_dropped_ = 0;
  std::unique_ptr<ReadPlan> plan_;
  std::unique_ptr<ReadAhead> reads_;
  Gpu* gpu_;
  std::optional<FinishedRead> ahead_;  // what has_next() has seen
  std::unique_ptr<Upload> upload_;     // of its batch, where it is on its way to the GPU
};

}  // namespace tenon
