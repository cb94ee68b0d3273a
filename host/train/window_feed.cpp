// SPDX-License-Identifier: Apache-2.0
#include "host/train/window_feed.hpp"

#include "host/data/batch_builder.hpp"
#include "host/data/packed_source.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/tensor/batch_positions.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/step_log.hpp"
#include "host/train/stop_conditions.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace tenon {
namespace {

// Measures how long training waits for data.
class WaitTimer {
 public:
  explicit WaitTimer(StepLog& log) : log_(log) {}
  ~WaitTimer() { log_.add_data_wait(std::chrono::steady_clock::now() - began_); }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  StepLog& log_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

Batch copy_of(const Batch& batch) {
  Batch copy = batch;
  for (at::Tensor& field : copy.fields) {
    if (field.defined()) {
      field = field.clone();
    }
  }
  return copy;
}

// The sequences as rows of four numbers.
void put_sequences(const Batch& batch, StateTree& tree, const std::string& entry) {
  constexpr int64_t kNumbers = 4;
  const auto count = static_cast<int64_t>(batch.sequences.size());
  at::Tensor numbers = at::empty({count, kNumbers}, at::kLong);
  int64_t* next = numbers.mutable_data_ptr<int64_t>();
  for (const BatchSequence& sequence : batch.sequences) {
    for (const int64_t number :
         {sequence.row, sequence.first, sequence.length, static_cast<int64_t>(sequence.part)}) {
      *next++ = number;
    }
  }
  at::Tensor parts = at::empty({static_cast<int64_t>(batch.row_parts.size())}, at::kLong);
  std::ranges::copy(batch.row_parts, parts.mutable_data_ptr<int64_t>());
  tree.put_tensor(
      state_path(entry, "sequences"), numbers, StateTree::Copy::kNo, TENON_STATE_PER_RANK);
  tree.put_tensor(
      state_path(entry, "row_parts"), parts, StateTree::Copy::kNo, TENON_STATE_PER_RANK);
}

// Checkpoints of earlier versions have none.
void get_sequences(const StateTree& tree, const std::string& entry, Batch& batch) {
  if (tree.find(state_path(entry, "sequences")) == nullptr) {
    return;
  }
  const at::Tensor numbers = tree.get_tensor(state_path(entry, "sequences"));
  const auto* next = numbers.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < numbers.size(0); ++i, next += numbers.size(1)) {
    batch.sequences.push_back({.row = next[0],
                               .first = next[1],
                               .length = next[2],
                               .part = static_cast<uint32_t>(next[3])});
  }
  const at::Tensor parts = tree.get_tensor(state_path(entry, "row_parts"));
  for (int64_t i = 0; i < parts.numel(); ++i) {
    batch.row_parts.push_back(static_cast<uint32_t>(parts.const_data_ptr<int64_t>()[i]));
  }
}

// What a part of a batch says of the whole.
void put_positions(const Batch& batch, StateTree& tree, const std::string& entry) {
  if (!batch.positions.has_value()) {
    return;
  }
  tree.put_int(state_path(entry, "positions"), batch.positions->whole, TENON_STATE_PER_RANK);
  Batch whole;
  whole.sequences = batch.positions->sequences;
  put_sequences(whole, tree, state_path(entry, "whole"));
}

void get_positions(const StateTree& tree,
                   const std::string& entry,
                   const RankIndex& rank,
                   Batch& batch) {
  const std::string positions = state_path(entry, "positions");
  if (tree.find(positions) == nullptr) {
    return;
  }
  Batch whole;
  get_sequences(tree, state_path(entry, "whole"), whole);
  batch.positions = positions_of_part(saved_signed_count(tree, positions),
                                      rank.index,
                                      rank.count,
                                      batch.samples,
                                      std::move(whole.sequences));
}

}  // namespace

WindowFeed::WindowFeed(RunServices& run, const StopConditions& stop, StepLog& log)
    : run_(run), stop_(stop), log_(log) {
  for (const EvalSet& set : run.data.eval_sets) {
    if (has_paired_windows(set, run.recipe().eval, run.data.train)) {
      paired_.push_back(set.data);
    }
  }
}

void WindowFeed::begin_epoch(uint64_t epoch) {
  // The stream counts from 0 again.
  count_.skipped += static_cast<uint64_t>(run_.data.train.num_skipped());
  count_.repeated += static_cast<uint64_t>(run_.data.train.num_repeated());
  run_.data.train.begin_epoch(epoch);
  for (DataStream* const paired : paired_) {
    paired->begin_epoch(epoch);
  }
}

NextWindow WindowFeed::open(DataStream& data) {
  return next_window_together(data, run_.ranks.groups.all(), [this] {
    return stop_.is_interrupted() || stop_.is_time_up();
  });
}

NextWindow WindowFeed::open_next() {
  NextWindow next = NextWindow::kEnd;
  {
    const WaitTimer timer(log_);
    next = open(run_.data.train);
  }
  for (DataStream* const paired : paired_) {
    if (next != NextWindow::kOpen) {
      break;
    }
    next = open(*paired);
    if (next == NextWindow::kEnd && run_.role().is_first()) {
      log_warning("the epoch ends before window " + run_.data.train.window_label() +
                  ", which is skipped: " + paired->source().name() +
                  " has no window to evaluate on beside it");
    }
  }
  if (next != NextWindow::kOpen && run_.data.train.has_window()) {
    run_.data.train.take_back_window();
  }
  return next;
}

const std::string& WindowFeed::begin_window() {
  count_.last = run_.data.train.window_label();
  return count_.last;
}

// Each rank has its own shards of a stream, so ranks add up their numbers.
void WindowFeed::report_end_of_window() {
  DataStream& data = run_.data.train;
  int64_t num_dropped = data.loader().num_dropped();
  if (takes_turns()) {
    run_.ranks.groups.samples().all_reduce(
        std::span(&num_dropped, 1), Reduce::kSum, "end of a window");
  }
  count_.dropped += num_dropped;
  if (num_dropped > 0 && run_.role().is_first()) {
    log_info(
        formatted("dropped {} samples at the end of {}",
                  num_dropped,
                  data.window_label().empty() ? "the window" : "window " + data.window_label()));
  }
}

void WindowFeed::report_empty_window() {
  if (!run_.data.train.window().has_value()) {
    return;
  }
  ++count_.empty;
  if (run_.role().is_first()) {
    log_info("window " + run_.data.train.window_label() + " is empty");
  }
}

void WindowFeed::report_packing() {
  const PackedSource* const packed = run_.data.train.source().packed();
  if (packed == nullptr || !run_.role().is_first()) {
    return;
  }
  const PackCounts counts = run_.data.train.pack_counts_of_epoch();
  const std::string line = formatted("epoch {}: ", run_.data.train.epoch().value_or(0)) +
                           tenon::describe(counts, packed->options());
  if (counts.lost > 0) {
    log_warning(line);
  } else {
    log_info(line);
  }
}

std::optional<PackedRows> WindowFeed::packed_rows() const {
  const PackedSource* const packed = run_.data.train.source().packed();
  if (packed == nullptr) {
    return std::nullopt;
  }
  const PackCounts counts = run_.data.train.pack_counts();
  return PackedRows{.row_tokens = packed->options().length,
                    .rows = counts.rows,
                    .tokens = counts.tokens,
                    .samples = counts.samples,
                    .over_long = counts.over_long,
                    .lost = counts.lost};
}

void WindowFeed::report_end_of_epoch() {
  report_packing();
  const std::vector<std::string> unmatched = run_.data.train.excluded().unmatched();
  if (!unmatched.empty() && !has_reported_skip_list_ && run_.role().is_first()) {
    log_warning("/data/skip_windows: no window of the epoch has the label or id " +
                joined(unmatched));
  }
  has_reported_skip_list_ = true;
}

void WindowFeed::fail_empty_epoch() const {
  const int64_t num_skipped = run_.data.train.num_skipped();
  const PackedSource* const packed = run_.data.train.source().packed();
  std::string why;
  if (num_skipped > 0) {
    why += formatted("; {} of its windows were skipped, as requested", num_skipped);
  }
  if (packed != nullptr && packed->options().over_long == OverLong::kDrop) {
    why += formatted("; packing drops samples of more than {} tokens", packed->options().length);
  }
  throw Error("data.empty",
              run_.data.train.source().name() + " gave no batch in a whole epoch" + why);
}

WindowCount WindowFeed::count() const {
  WindowCount count = count_;
  count.skipped += static_cast<uint64_t>(run_.data.train.num_skipped());
  count.repeated += static_cast<uint64_t>(run_.data.train.num_repeated());
  count.left_out = run_.data.train.source().report().left_out;
  return count;
}

// ---- batches of the open window ----

bool WindowFeed::has_next_batch() {
  const WaitTimer timer(log_);
  return run_.data.train.loader().has_next();
}

std::optional<Batch> WindowFeed::next_batch() {
  const WaitTimer timer(log_);
  return run_.data.train.loader().next();
}

bool WindowFeed::takes_turns() const {
  return !is_alone() && run_.data.train.source().info().style == DatasetStyle::kStream;
}

// True if this rank reads the shard, and has another batch of it.
bool WindowFeed::has_turn(uint32_t shard) const {
  const WaitTimer timer(log_);
  return shard % run_.ranks.groups.samples().size() == run_.ranks.groups.samples().rank() &&
         run_.data.train.loader().next_shard() == shard;
}

bool WindowFeed::start_reading() {
  if (!takes_turns()) {
    return any_rank(run_.ranks.groups.samples(), has_next_batch());
  }
  // Each rank knows the state of its own shards: 2 * batches + 1, plus 1 if the shard has ended.
  std::vector<int64_t> states(run_.data.train.source().info().num_shards, 0);
  for (const ShardPosition& shard : run_.data.train.loader().position().shards) {
    states[shard.shard] = 2 * shard.num_batches + 1 + (shard.has_ended ? 1 : 0);
  }
  run_.ranks.groups.samples().all_reduce(states, Reduce::kMax, "shards of a window");
  std::vector<ShardTurns::Shard> shards;
  shards.reserve(states.size());
  for (const int64_t state : states) {
    shards.push_back({.num_batches = (state - 1) / 2, .has_ended = state % 2 == 0});
  }
  turns_.emplace(shards);
  agreed_.clear();
  return resolve_turns();
}

// Looks for this rank's turn among the next ones. Returns true if this rank has a batch for it.
bool WindowFeed::ask() {
  asked_ = turns_->next_of_each_rank(run_.ranks.groups.samples().size());
  return std::ranges::any_of(asked_, [this](uint32_t shard) { return has_turn(shard); });
}

// Asks until the next step has a batch, or no rank has one.
bool WindowFeed::resolve_turns() {
  while (agreed_.empty() && !turns_->has_ended()) {
    const bool has_batch = ask();
    Agreement agreement(run_.ranks.groups.all());
    if (has_batch) {
      agreement.vote(Vote::kMoreData);
    }
    agreement.start();
    pass_asked(agreement);
  }
  TENON_ASSERT(!agreed_.empty() || !run_.data.train.loader().has_next(), "a batch without a turn");
  return !agreed_.empty();
}

void WindowFeed::pass_asked(Agreement& votes) {
  const std::vector<uint32_t> readers = run_.role().ranks_of(RankSet::kSamples);
  std::vector<int64_t> answers;
  for (const uint32_t shard : asked_) {
    const bool has_batch = votes.has_voted(readers[shard % readers.size()], Vote::kMoreData);
    answers.push_back(has_batch ? 1 : 0);
    if (answers.back() != 0) {
      agreed_.push_back(shard);
    }
  }
  turns_->pass(asked_, answers);
}

void WindowFeed::vote(Agreement& votes) {
  if (takes_turns() ? ask() : has_next_batch()) {
    votes.vote(Vote::kMoreData);
  }
}

bool WindowFeed::hear(Agreement& votes) {
  if (!takes_turns()) {
    return votes.resolve().has(Vote::kMoreData);
  }
  pass_asked(votes);
  return resolve_turns();
}

// Takes the batches of as many turns as a step has microbatches over all ranks. A rank with fewer
// turns than others adds empty batches, since microbatches have collectives.
std::vector<Batch> WindowFeed::take_turns() {
  const uint32_t num_ranks = run_.ranks.groups.samples().size();
  const auto most = static_cast<size_t>(run_.plan.loop.microbatches_per_step) * num_ranks;
  std::vector<Batch> batches;
  std::vector<size_t> num_of_rank(num_ranks, 0);
  std::vector<uint32_t> taken = std::exchange(agreed_, {});
  for (const uint32_t shard : taken) {
    ++num_of_rank[shard % num_ranks];
    if (shard % num_ranks == run_.ranks.groups.samples().rank()) {
      batches.push_back(*next_batch());
    }
  }
  for (size_t count = taken.size(); count < most && !turns_->has_ended();) {
    const std::vector<uint32_t> turns = turns_->next(most - count);
    std::vector<int64_t> has_batch;
    for (const uint32_t shard : turns) {
      has_batch.push_back(has_turn(shard) ? 1 : 0);
      if (has_batch.back() != 0) {
        batches.push_back(*next_batch());
      }
    }
    run_.ranks.groups.samples().all_reduce(has_batch, Reduce::kMax, "turns at shards");
    for (size_t i = 0; i < turns.size(); ++i) {
      num_of_rank[turns[i] % num_ranks] += static_cast<size_t>(has_batch[i]);
      count += static_cast<size_t>(has_batch[i]);
    }
    turns_->pass(turns, has_batch);
  }
  while (batches.size() < *std::ranges::max_element(num_of_rank)) {
    batches.push_back(empty_batch(run_.data.train.source().info().schema));
  }
  return batches;
}

std::vector<Microbatch> WindowFeed::take_microbatches() {
  const TraceSpan span("take batches");
  std::vector<Microbatch> microbatches;
  if (takes_turns()) {
    for (Batch& batch : take_turns()) {
      microbatches.push_back({.batch = std::move(batch)});
    }
  } else {
    for (int64_t i = 0; i < run_.plan.loop.microbatches_per_step; ++i) {
      std::optional<Batch> batch = next_batch();
      if (!batch.has_value()) {
        break;
      }
      microbatches.push_back({.batch = std::move(*batch)});
    }
  }
  if (run_.recipe().train.overfit_batch) {
    repeat_first(microbatches);
  }
  batch_bytes_ = 0;
  for (const Microbatch& microbatch : microbatches) {
    batch_bytes_ += static_cast<int64_t>(microbatch.batch.num_bytes());
  }
  return microbatches;
}

// Batches are read and then replaced, so that windows, epochs and the run length stay the same.
// Each step gets copies, since a hook may write into its batch.
void WindowFeed::repeat_first(std::vector<Microbatch>& microbatches) {
  if (first_batches_.empty()) {
    for (const Microbatch& microbatch : microbatches) {
      first_batches_.push_back(copy_of(microbatch.batch));
    }
    return;
  }
  microbatches.clear();
  for (const Batch& batch : first_batches_) {
    microbatches.push_back({.batch = copy_of(batch)});
  }
}

void WindowFeed::put_first_batches(StateTree& tree, const std::string& at) const {
  constexpr uint32_t kScope = TENON_STATE_PER_RANK;
  tree.put_int(state_path(at, "count"), static_cast<int64_t>(first_batches_.size()), kScope);
  tree.put_int(state_path(at, "context"), run_.role().positions().count, kScope);
  tree.put_int(state_path(at, "tensor"), run_.role().tensor().count, kScope);
  for (size_t i = 0; i < first_batches_.size(); ++i) {
    const Batch& batch = first_batches_[i];
    const std::string entry = state_path(at, std::to_string(i));
    tree.put_int(state_path(entry, "samples"), batch.samples, kScope);
    tree.put_int(state_path(entry, "tokens"), batch.tokens, kScope);
    if (batch.packed_samples) {
      tree.put_int(state_path(entry, "packed_samples"), *batch.packed_samples, kScope);
    }
    if (batch.lengths.defined()) {
      tree.put_tensor(state_path(entry, "lengths"), batch.lengths, StateTree::Copy::kNo, kScope);
    }
    put_sequences(batch, tree, entry);
    put_positions(batch, tree, entry);
    for (size_t f = 0; f < batch.fields.size(); ++f) {
      if (batch.fields[f].defined()) {
        tree.put_tensor(state_path(entry, formatted("fields/{}", f)),
                        batch.fields[f],
                        StateTree::Copy::kNo,
                        kScope);
      }
    }
  }
}

// If the number of ranks has changed, the state has no batches: the next step stores its own. So it
// does if other ranks have the same samples.
void WindowFeed::get_first_batches(const StateTree& tree, const std::string& at) {
  if (tree.find(state_path(at, "count")) == nullptr) {
    return;
  }
  const auto is_same = [&](const char* name, RankIndex ranks) {
    const std::string entry = state_path(at, name);
    const int64_t saved = tree.find(entry) != nullptr ? saved_signed_count(tree, entry) : 1;
    return saved == ranks.count;
  };
  if (!is_same("context", run_.role().positions()) || !is_same("tensor", run_.role().tensor())) {
    return;
  }
  first_batches_.clear();
  const int64_t count = saved_signed_count(tree, state_path(at, "count"));
  for (int64_t i = 0; i < count; ++i) {
    const std::string entry = state_path(at, std::to_string(i));
    Batch batch;
    batch.schema = run_.data.train.source().info().schema;
    batch.samples = saved_signed_count(tree, state_path(entry, "samples"));
    batch.tokens = saved_signed_count(tree, state_path(entry, "tokens"));
    if (const std::string packed = state_path(entry, "packed_samples");
        tree.find(packed) != nullptr) {
      batch.packed_samples = saved_signed_count(tree, packed);
    }
    if (const std::string lengths = state_path(entry, "lengths"); tree.find(lengths) != nullptr) {
      batch.lengths = tree.get_tensor(lengths);
    }
    get_sequences(tree, entry, batch);
    get_positions(tree, entry, run_.role().positions(), batch);
    batch.fields.resize(batch.schema->size());
    for (size_t f = 0; f < batch.fields.size(); ++f) {
      const std::string field = state_path(entry, formatted("fields/{}", f));
      if (tree.find(field) != nullptr) {
        batch.fields[f] = tree.get_tensor(field);
      }
    }
    first_batches_.push_back(std::move(batch));
  }
}

}  // namespace tenon
