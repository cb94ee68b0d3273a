// SPDX-License-Identifier: Apache-2.0

#include "host/data/loader.hpp"

#include <tenon/dataset.h>

#include "host/data/map_plan.hpp"
#include "host/data/order.hpp"
#include "host/data/packed_source.hpp"
#include "host/data/part_message.hpp"
#include "host/data/stream_plan.hpp"
#include "host/device/host_memory.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/batch_positions.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace tenon {
namespace {

bool is_uploaded(const Batch& batch, size_t field) {
  return batch.fields[field].defined() &&
         ((*batch.schema)[field].flags & TENON_FIELD_HOST_ONLY) == 0;
}

// Returns the tensor, or a copy of it, in memory that copies to the GPU need not wait for. Cutting
// a batch leaves such memory.
at::Tensor in_upload_memory(const at::Tensor& tensor) {
  if (!can_pin_memory() || tensor.is_pinned()) {
    return tensor;
  }
  return at::empty(tensor.sizes(), tensor.options().pinned_memory(true)).copy_(tensor);
}

Batch part_of(const Batch& batch, const DataRank& positions) {
  return part_of_rank(
      batch, static_cast<uint32_t>(positions.rank), static_cast<uint32_t>(positions.size));
}

}  // namespace

LoaderOptions for_evaluation(const LoaderOptions& training, std::optional<int64_t> max_batches) {
  LoaderOptions options = training;
  options.last = Remainder::kShort;
  options.samples_per_step = 0;
  options.shuffle = false;
  options.max_batches = max_batches;
  return options;
}

Loader::Loader(DataSource& source,
               const std::optional<Window>& window,
               uint64_t epoch,
               const LoaderOptions& options,
               const LoaderPosition& start)
    : window_(window),
      max_batches_(options.max_batches),
      positions_(options.positions),
      parts_(options.parts),
      source_(source),
      gpu_(options.gpu) {
  const Window* const at = window_ ? &*window_ : nullptr;
  if (source.info().style == DatasetStyle::kMap) {
    position_.cursor = start.cursor;
    position_.packs = start.packs;
    const int64_t num_samples = source.size(at);
    if (num_samples > kMostSamples) {
      throw Error(
          "plugin.bad_result",
          formatted(
              "{}: size returned {} samples, expected at most 2^62", source.name(), num_samples));
    }
    num_samples_ = num_samples;
    const SampleOrderKey key{
        .seed = options.seed, .epoch = epoch, .window_id = window_ ? window_->id() : 0};
    const SampleOrder order(key,
                            num_samples,
                            options.shuffle && !source.info().has_own_order
                                ? SampleOrder::Shuffle::kYes
                                : SampleOrder::Shuffle::kNo);
    if (PackedSource* const packed = source.packed()) {
      plan_rows(*packed, order, options, {.shuffle = options.shuffle, .key = key});
    } else {
      sampler_.emplace(
          num_samples, options.batch_size, options.rank, options.last, options.samples_per_step);
      num_dropped_ = sampler_->num_dropped(start.cursor);
      plan_ = std::make_unique<MapPlan>(source, at, order, *sampler_, start.cursor, max_batches_);
    }
  } else {
    position_.shards = shards_of_rank(source, options.rank, start.shards);
    for (const ShardPosition& shard : position_.shards) {
      source.seek(at, shard.shard, shard.position);
    }
    plan_ = std::make_unique<StreamPlan>(
        source, at, position_.shards, options.batch_size, options.last);
  }
  begin_reads(options);
}

Loader::~Loader() = default;

// A rank that takes turns reads as many of its own batches ahead as a rank that reads all.
void Loader::begin_reads(const LoaderOptions& options) {
  if (parts_ != nullptr && positions_.size > 1 && num_samples_) {
    auto turns = std::make_unique<ReadTurns>(std::move(plan_), positions_);
    turns_ = turns.get();
    plan_ = std::move(turns);
  }
  reads_ = std::make_unique<ReadAhead>(
      *plan_, ReadAheadOptions{.num_threads = options.num_threads, .depth = options.prefetch});
}

void Loader::plan_rows(PackedSource& source,
                       const SampleOrder& order,
                       const LoaderOptions& options,
                       const RowOrder& rows) {
  const Window* const at = window_ ? &*window_ : nullptr;
  const LengthSummary lengths = source.length_summary(at);
  lengths_fingerprint_ = lengths.fingerprint;
  if (source.options().over_long == OverLong::kError) {
    check_longest(lengths, at, source.options());
  }
  groups_.emplace(source, at, order, source.options(), rows);
  auto plan = std::make_unique<PackPlan>(source,
                                         at,
                                         *groups_,
                                         PackPlan::Deals{.batch_size = options.batch_size,
                                                         .rank = options.rank,
                                                         .last = options.last,
                                                         .rows_per_step = options.samples_per_step,
                                                         .max_batches = options.max_batches},
                                         position_.cursor,
                                         position_.packs);
  pack_plan_ = plan.get();
  plan_ = std::move(plan);
}

bool Loader::has_next() {
  if (max_batches_ && num_batches_ >= *max_batches_) {
    return false;
  }
  while (!ahead_) {
    ahead_ = turns_ != nullptr ? take_turn() : take_own_part();
    if (!ahead_) {
      return false;
    }
    if (!ahead_->result.batch && ahead_->failure == nullptr) {
      // The end of a shard without a batch: the caller has nothing to consume.
      pass(ahead_->request, ahead_->result);
      ahead_.reset();
    }
  }
  begin_upload();
  return true;
}

// Returns the next read of all ranks, with this rank's part of the batch.
std::optional<FinishedRead> Loader::take_turn() {
  std::optional<ReadTurns::Turn> turn = turns_->take();
  if (!turn) {
    return std::nullopt;
  }
  std::optional<FinishedRead> read;
  if (turn->rank == positions_.rank) {
    read = reads_->take();
    TENON_ASSERT(read.has_value(), "a turn without a read");
    send_parts(*read, turn->number);
  } else {
    read = FinishedRead{.request = std::move(turn->request), .result = {}, .failure = nullptr};
    receive_part(*read, *turn);
  }
  return read;
}

// Sends each other rank its part of the batch, or the error of the read. Keeps the own part. A
// failed exchange takes the place of the batch, since ranks cannot repeat it.
void Loader::send_parts(FinishedRead& read, int64_t number) {
  std::vector<at::Tensor> messages(static_cast<size_t>(positions_.size));
  try {
    if (read.failure != nullptr) {
      std::rethrow_exception(read.failure);
    }
    Batch own;
    for (int64_t rank = 0; rank < positions_.size; ++rank) {
      Batch part = part_of(*read.result.batch, {.rank = rank, .size = positions_.size});
      if (rank == positions_.rank) {
        own = std::move(part);
      } else {
        messages[static_cast<size_t>(rank)] = encode_part(part, number);
      }
    }
    read.result.batch = std::move(own);
  } catch (const std::exception& failure) {
    const Error error = parts_->error_of(failure);
    read.result = {};
    read.failure = std::make_exception_ptr(error);
    std::ranges::fill(messages, encode_failure(error, number));
  }
  try {
    parts_->send(messages);
  } catch (const Error&) {
    read.result = {};
    read.failure = std::current_exception();
  }
}

void Loader::receive_part(FinishedRead& read, const ReadTurns::Turn& turn) {
  try {
    read.result.batch = decode_part(parts_->receive(turn.rank), source_.info().schema, turn.number);
  } catch (const Error&) {
    read.failure = std::current_exception();
  }
}

// Returns the next read of this rank, with its part of the batch.
std::optional<FinishedRead> Loader::take_own_part() {
  std::optional<FinishedRead> read = reads_->take();
  if (!read || !read->result.batch || positions_.size == 1) {
    return read;
  }
  try {
    read->result.batch = part_of(*read->result.batch, positions_);
  } catch (const Error&) {
    read->result = {};
    read->failure = std::current_exception();
  }
  return read;
}

std::optional<uint32_t> Loader::next_shard() {
  return has_next() ? std::optional(position_.shards[ahead_->request.lane].shard) : std::nullopt;
}

// Does not move the position: the batch has not been returned to the caller.
void Loader::begin_upload() {
  if (gpu_ == nullptr || ahead_->failure != nullptr || upload_ != nullptr) {
    return;
  }
  const Batch& batch = *ahead_->result.batch;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < batch.fields.size(); ++i) {
    if (is_uploaded(batch, i)) {
      tensors.push_back(batch.fields[i]);
    }
  }
  if (batch.lengths.defined()) {
    tensors.push_back(batch.lengths);
  }
  if (batch.positions) {
    tensors.push_back(batch.positions->position_ids);
    std::ranges::transform(tensors, tensors.begin(), in_upload_memory);
  }
  upload_ = gpu_->upload(std::move(tensors));
}

void Loader::finish_upload(Batch& batch) {
  auto uploaded = upload_->finish();
  upload_.reset();
  auto tensor = uploaded.begin();
  for (size_t i = 0; i < batch.fields.size(); ++i) {
    if (is_uploaded(batch, i)) {
      batch.fields[i] = std::move(*tensor++);
    }
  }
  if (batch.lengths.defined()) {
    batch.lengths = std::move(*tensor++);
  }
  if (batch.positions) {
    batch.positions->position_ids = std::move(*tensor++);
  }
}

std::optional<Batch> Loader::next() {
  if (!has_next()) {
    return std::nullopt;
  }
  if (ahead_->failure != nullptr) {
    std::rethrow_exception(ahead_->failure);  // thrown again at each later call
  }
  ReadResult result = std::move(ahead_->result);
  pass(ahead_->request, result);
  ahead_.reset();
  if (upload_ != nullptr) {
    finish_upload(*result.batch);
  }
  ++num_batches_;
  return std::move(result.batch);
}

int64_t Loader::num_dropped() const {
  return pack_plan_ != nullptr ? pack_plan_->num_dropped() : num_dropped_;
}

std::vector<int64_t> Loader::part_samples() const {
  return groups_ ? groups_->part_samples(position_.packs) : source_.part_samples(position_);
}

std::optional<int64_t> Loader::num_batches_left() const {
  if (!sampler_) {
    return std::nullopt;
  }
  const int64_t left = sampler_->num_left(position_.cursor);
  return max_batches_ ? std::min(left, *max_batches_ - num_batches_) : left;
}

// Moves the position past a read.
void Loader::pass(const ReadRequest& read, ReadResult& result) {
  if (num_samples_) {
    position_.cursor = read.cursor_after;
    if (read.packed != nullptr) {
      position_.packs = read.packed->after;
      pack_counts_ += read.packed->counts;
    }
    return;
  }
  ShardPosition& shard = position_.shards[read.lane];
  if (result.position) {
    shard.position = std::move(result.position);
  }
  shard.has_ended = result.has_ended_lane;
  shard.num_batches += result.batch ? 1 : 0;
  num_dropped_ += result.num_dropped;
}

}  // namespace tenon
