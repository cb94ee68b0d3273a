// SPDX-License-Identifier: Apache-2.0
#include "host/model/compile_program.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/model/block_tiles.hpp"
#include "host/model/program_builder.hpp"
#include "host/model/stage_values.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

namespace tenon {
namespace {

// By value.
std::vector<bool> kept_values(const ModelGraph& graph, const ProgramOptions& options) {
  std::vector<bool> is_kept(graph.values.size(), !options.kept.has_value());
  for (const uint32_t v : options.kept.value_or(std::vector<uint32_t>())) {
    is_kept[v] = true;
  }
  return is_kept;
}

// By value: losses and metrics read it after the forward.
std::vector<bool> values_read_at_end(const ModelGraph& graph, const ProgramOptions& options) {
  std::vector<bool> is_read = kept_values(graph, options);
  for (size_t v = 0; v < is_read.size(); ++v) {
    is_read[v] = is_read[v] && (options.kept.has_value() || graph.values[v].is_read);
  }
  return is_read;
}

class PassCompiler {
 public:
  PassCompiler(PassKind kind,
               const GraphFacts& graph,
               std::span<const GroupFacts> groups,
               const ProgramOptions& options)
      : kind_(kind),
        facts_(graph),
        graph_(graph.graph()),
        groups_(groups),
        options_(options),
        is_train_(kind == PassKind::kTrain),
        stage_(graph, options.stage, values_read_at_end(graph_, options)),
        is_chunked_(options.chunks && !is_replay() && !graph.tails().empty() && stage_.is_last()),
        moves_groups_(moves_groups(groups, options.has_many_ranks)),
        can_tile_(tileable_blocks(graph.graph())),
        is_kept_(kept_values(graph_, options)),
        again_begin_(graph.num_blocks(), 0),
        again_end_(graph.num_blocks(), 0),
        enter_forward_(graph.num_blocks()),
        leave_forward_(graph.num_blocks()),
        enter_backward_(graph.num_blocks()),
        leave_backward_(graph.num_blocks()),
        builder_(graph, groups) {
    TENON_ASSERT(!stage_.has_many_stages() || !has_rows(graph), "stages have no table rows");
    find_uses();
    if (is_train_ && options.moves_activations) {
      moves_ = graph.movable_values(
          [this](uint32_t b) { return (is_recomputed(b) || is_tiled(b)) && !facts_.is_tail(b); },
          [this](uint32_t v) {
            return is_kept_[v] || !stage_.is_read_here_alone(v) || is_gone_after_forward(v);
          });
    }
  }

  Program compile() {
    compile_forward();
    if (is_chunked_) {
      compile_chunk();
    } else if (!is_replay() && stage_.is_last()) {
      builder_.begin(Section::kLosses);
      builder_.add({.op = Op::kLoss});
    }
    if (is_train_) {
      compile_again();
      compile_backward();
    }
    builder_.begin(Section::kEnd);
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (builder_.is_whole(g)) {
        builder_.add({.op = Op::kAwait, .group = g});
        builder_.free(g, kNoIndex);
      }
    }
    return builder_.finish(kind_, options_.stage, is_chunked_);
  }

 private:
  // ---- decisions about blocks and values ----

  bool is_replay() const { return kind_ == PassKind::kReplay; }
  bool is_recomputed(uint32_t b) const {
    return !options_.recomputed.empty() && options_.recomputed[b] &&
           !graph_.blocks[b].has(TENON_BLOCK_NO_RECOMPUTE | TENON_BLOCK_HAND_WRITTEN);
  }
  bool is_tiled(uint32_t b) const { return options_.tiles && can_tile_[b]; }
  // Whether the tape keeps anything until backward. A recompute runs the recomputed blocks of a
  // unit, with those that have no backward.
  bool keeps_tape(uint32_t b) const {
    return is_train_ &&
           (facts_.has_backward(b) || (is_recomputed(b) && graph_.blocks[b].model == 0));
  }
  bool keeps_attention(uint32_t b) const {
    return options_.keeps_attention && is_recomputed(b) && keeps_tape(b) && !is_tiled(b);
  }
  // Whether the value is dropped at the end of its unit, since a recompute makes it again.
  bool is_remade(uint32_t v) const {
    return !is_kept_[v] && facts_.is_remade(v, [this](uint32_t b) { return is_recomputed(b); });
  }
  bool is_gone_after_forward(uint32_t v) const {
    const ModelValue& value = graph_.values[v];
    const bool is_dropped_when_read = !stage_.stays(v) && !facts_.has_backward(value.maker);
    return is_dropped_when_read || is_remade(v);
  }

  // ---- parameters ----

  // Blocks of the stage that use the group; all of them without a pipeline.
  std::vector<uint32_t> blocks_of_stage(uint32_t g) const {
    std::vector<uint32_t> blocks;
    std::ranges::copy_if(groups_[g].blocks, std::back_inserter(blocks), [this](uint32_t b) {
      return stage_.has(b);
    });
    return blocks;
  }

  // Of several stages of this rank that use a group, the first one runs backward last, and reduces
  // the gradients.
  bool completes_gradients(uint32_t g) const {
    return std::ranges::none_of(groups_[g].blocks,
                                [this](uint32_t b) { return stage_.is_earlier_here(b); });
  }

  void find_uses() {
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const std::vector<uint32_t> blocks = blocks_of_stage(g);
      uses_.push_back(use_of(facts_, blocks, options_.reshard_after_forward));
      if (stage_.has_many_stages() && blocks.empty()) {
        continue;  // other stages use it
      }
      enter_forward_[uses_[g].first].push_back(g);
      leave_forward_[uses_[g].last].push_back(g);
      if (uses_[g].last_back.has_value()) {
        enter_backward_[*uses_[g].last_back].push_back(g);
        leave_backward_[*uses_[g].first_back].push_back(g);
      }
    }
  }

  void enter_forward(uint32_t b, uint16_t await_flags = 0) {
    if (!moves_groups_) {
      return;
    }
    gather(enter_forward_, b);
    if (const uint32_t next = stage_.next(b); next != kNoIndex) {
      gather(enter_forward_, next);  // while block b computes
    }
    await(enter_forward_, b, await_flags);
  }

  void leave_forward(uint32_t b) {
    for (const uint32_t g : leave_forward_[b]) {
      if (!is_train_ || !uses_[g].stays_after_forward) {
        builder_.free(g, b);
      }
    }
  }

  void enter_backward(uint32_t b) {
    if (!moves_groups_) {
      return;
    }
    gather(enter_backward_, b);
    if (const uint32_t previous = stage_.previous(b); previous != kNoIndex) {
      gather(enter_backward_, previous);
    }
    await(enter_backward_, b, kSettlesGradients);
  }

  void leave_backward(uint32_t b) {
    for (const uint32_t g : leave_backward_[b]) {
      const GroupFacts& group = groups_[g];
      if (!moves_groups_) {
        if (group.frees_gradients) {
          builder_.add(
              {.op = Op::kUpdate, .when = When::kInLastMicrobatch, .block = b, .group = g});
        }
        continue;
      }
      builder_.free(g, b);
      if (group.is_trainable && completes_gradients(g)) {
        builder_.add({.op = Op::kReduce,
                      .when = group.keeps_gradients ? When::kInLastMicrobatch : When::kAlways,
                      .block = b,
                      .group = g});
      }
    }
  }

  using GroupsByBlock = std::vector<std::vector<uint32_t>>;
  void gather(const GroupsByBlock& groups, uint32_t b) {
    for (const uint32_t g : groups[b]) {
      builder_.gather(g, b);
    }
  }
  void await(const GroupsByBlock& groups, uint32_t b, uint16_t flags) {
    for (const uint32_t g : groups[b]) {
      builder_.add({.op = Op::kAwait, .flags = flags, .block = b, .group = g});
    }
  }

  // ---- forward ----

  void compile_forward() {
    builder_.begin(Section::kForward);
    if (has_rows(facts_)) {
      builder_.add({.op = Op::kLookup});
    }
    builder_.set(stage_.inherited());
    for (const StageTraffic::Lot& lot : stage_.traffic().receives) {
      builder_.add({.op = Op::kReceive, .stage = lot.stage}, lot.values);
      builder_.set(lot.values);
    }
    compile_forward_of_blocks();
    for (const StageTraffic::Lot& lot : stage_.traffic().sends) {
      builder_.add({.op = Op::kSend, .stage = lot.stage}, lot.values);
    }
    builder_.drop(kNoIndex, dropped_when_read(stage_.last_sent()));
  }

  void compile_forward_of_blocks() {
    for (uint32_t b = 0; b < facts_.num_blocks(); ++b) {
      if (!stage_.has(b) || (is_chunked_ && facts_.is_tail(b))) {
        continue;
      }
      if (const std::vector<uint32_t>& rows = facts_.rows_first_read_by(b); !rows.empty()) {
        builder_.add({.op = Op::kRows, .block = b}, rows);
        builder_.set(rows);
      }
      enter_forward(b);
      const bool by_hand = graph_.blocks[b].has(TENON_BLOCK_HAND_WRITTEN);
      const bool records = keeps_tape(b) && !is_recomputed(b) && !is_tiled(b) && !by_hand;
      builder_.forward(
          b,
          static_cast<uint16_t>((records ? kRecords : 0) | (is_replay() ? kIsAgain : 0) |
                                (is_tiled(b) ? kInTiles : 0) |
                                (keeps_attention(b) ? kKeepsAttention : 0)));
      if (is_replay()) {  // an observer reads the parameters too
        builder_.add({.op = Op::kSeen, .block = b});
        builder_.drop(b, {}, kTape);
        leave_forward(b);
        continue;
      }
      leave_forward(b);
      drop_after_forward(b);
    }
  }

  void drop_after_forward(uint32_t b) {
    if (keeps_tape(b)) {
      keep_tape(b);
    } else {
      builder_.drop(b, {}, kTape);
    }
    if (is_train_) {
      drop_remade_values(b);
    }
    builder_.drop(b, dropped_when_read(stage_.last_read_by(b)));
    if (is_train_ && moves(b)) {
      builder_.add({.op = Op::kMoveAway, .block = b}, moves_[b]);
      builder_.forget(moves_[b]);
    }
  }

  // Of values that nothing reads any more in forward, those that backward does not need.
  std::vector<uint32_t> dropped_when_read(const std::vector<uint32_t>& values) const {
    std::vector<uint32_t> dropped;
    std::ranges::copy_if(values, std::back_inserter(dropped), [this](uint32_t v) {
      return !is_train_ || !facts_.has_backward(graph_.values[v].maker);
    });
    return dropped;
  }

  void keep_tape(uint32_t b) {
    const bool inputs_only = is_recomputed(b) || is_tiled(b);
    builder_.add({.op = Op::kKeep,
                  .flags = static_cast<uint16_t>((inputs_only ? kInputsOnly : 0) |
                                                 (keeps_attention(b) ? kKeepsAttention : 0)),
                  .block = b});
  }

  // At the end of a unit of several blocks, drops the values that a recompute makes again.
  void drop_remade_values(uint32_t b) {
    const ModelUnit& unit = facts_.unit_of(b);
    if (b != unit.last || unit.first == b) {
      return;
    }
    std::vector<uint32_t> remade;
    for (uint32_t of_unit = unit.first; of_unit <= b; ++of_unit) {
      std::ranges::copy_if(graph_.blocks[of_unit].outputs,
                           std::back_inserter(remade),
                           [this](uint32_t v) { return is_remade(v); });
    }
    if (!remade.empty()) {
      builder_.drop(b, remade, kFromTapes);
    }
  }

  // Whether anything of the unit that ends with block b moves to the activation store.
  bool moves(uint32_t b) const {
    const ModelUnit& unit = facts_.unit_of(b);
    if (moves_.empty() || b != unit.last || b + 1 == facts_.num_blocks() ||
        (is_chunked_ && facts_.is_tail(b))) {
      return false;
    }
    const auto blocks = std::views::iota(unit.first, b + 1);
    return !moves_[b].empty() ||
           std::ranges::any_of(blocks, [this](uint32_t c) { return keeps_attention(c); });
  }

  // ---- losses ----

  void compile_chunk() {
    builder_.begin(Section::kLosses);
    builder_.set_condition(When::kInFirstChunk);
    for (uint32_t b = 0; b < facts_.num_blocks(); ++b) {
      if (facts_.is_tail(b)) {
        enter_forward(b, is_train_ ? uint16_t{kSettlesGradients} : uint16_t{0});
      }
    }
    settle_gradients(facts_.num_blocks() - 1);
    builder_.set_condition(When::kAlways);
    for (const uint32_t b : facts_.tails()) {
      const bool keeps = is_train_ && facts_.has_backward(b);
      const bool by_hand = graph_.blocks[b].has(TENON_BLOCK_HAND_WRITTEN);
      builder_.forward(b, static_cast<uint16_t>(kInChunk | (keeps && !by_hand ? kRecords : 0)));
      if (keeps) {
        builder_.add({.op = Op::kKeep, .block = b});
      } else {
        builder_.drop(b, {}, kTape);
      }
    }
    builder_.add({.op = Op::kLoss, .flags = kInChunk});
    if (is_train_) {
      compile_chunk_backward();
      return;
    }
    for (const uint32_t b : facts_.tails()) {
      builder_.drop(b, graph_.blocks[b].outputs);
    }
  }

  // Chunks add gradients of the last block before the backward reaches it, so reductions of an
  // earlier microbatch that read their memory must have ended. Groups that enter at the block wait
  // for them there; this is for groups that earlier blocks share with it.
  void settle_gradients(uint32_t b) {
    for (uint32_t g = 0; is_train_ && moves_groups_ && g < groups_.size(); ++g) {
      const std::vector<uint32_t>& users = groups_[g].users;
      if (groups_[g].is_trainable && uses_[g].first != b &&
          std::ranges::find(users, b) != users.end()) {
        builder_.add({.op = Op::kAwait, .flags = kSettlesGradients, .block = b, .group = g});
      }
    }
  }

  void compile_chunk_backward() {
    const uint32_t tail = facts_.num_blocks() - 1;
    builder_.add({.op = Op::kLossBackward});
    if (facts_.has_backward(tail)) {
      builder_.add({.op = Op::kBackward, .when = When::kIfAsked, .flags = kInChunk, .block = tail});
    }
    builder_.drop(tail, {}, kTape);
    const std::vector<uint32_t> inputs = inputs_with_gradient(tail);
    if (!inputs.empty()) {
      builder_.add({.op = Op::kPutPieces, .block = tail}, {inputs.rbegin(), inputs.rend()});
      builder_.add({.op = Op::kAddGradients, .when = When::kInLastChunk, .block = tail}, inputs);
    }
    std::vector<uint32_t> outputs;
    for (const uint32_t b : facts_.tails()) {
      std::ranges::copy(graph_.blocks[b].outputs, std::back_inserter(outputs));
    }
    builder_.drop(kNoIndex, outputs);
  }

  // ---- backward ----

  // Returns the inputs that have a gradient, from the last: the order in which one graph over the
  // whole model adds them.
  std::vector<uint32_t> inputs_with_gradient(uint32_t b) const {
    std::vector<uint32_t> inputs;
    std::ranges::copy_if(graph_.blocks[b].inputs | std::views::reverse,
                         std::back_inserter(inputs),
                         [this](uint32_t v) { return facts_.has_gradient(v); });
    return inputs;
  }

  bool has_backward(uint32_t b) const {
    return facts_.has_backward(b) && !(is_chunked_ && b + 1 == facts_.num_blocks());
  }
  // Whether a recompute of the unit repeats the forward. The backward of a tiled block repeats its
  // tiles, so its outputs are made again only if later blocks need them.
  bool runs_again(uint32_t b) const {
    const auto is_made_again = [this](uint32_t v) { return is_remade(v); };
    return is_recomputed(b) && keeps_tape(b) && !(is_chunked_ && b + 1 == facts_.num_blocks()) &&
           (!is_tiled(b) || std::ranges::any_of(graph_.blocks[b].outputs, is_made_again));
  }

  // The forwards of each unit that a recompute repeats, by block the range up to it.
  void compile_again() {
    uint32_t end = 0;
    for (uint32_t b = 0; b < facts_.num_blocks(); ++b) {
      const uint32_t first = facts_.unit_of(b).first;
      again_begin_[b] = first == b ? end : again_begin_[first];
      if (stage_.has(b) && runs_again(b)) {
        const uint16_t how = is_tiled(b) ? kInTiles : kRecords;
        const uint16_t attention = keeps_attention(b) ? kKeepsAttention : 0;
        end = builder_.add_again({.op = Op::kForward,
                                  .flags = static_cast<uint16_t>(how | kIsAgain | attention),
                                  .block = b});
      }
      again_end_[b] = end;
    }
  }

  void compile_backward() {
    builder_.begin(Section::kBackward);
    for (const StageTraffic::Lot& lot : stage_.traffic().receives_gradients) {
      builder_.add({.op = Op::kReceiveGradients, .stage = lot.stage}, lot.values);
    }
    if (!is_chunked_ && stage_.is_last()) {
      builder_.add({.op = Op::kLossBackward});
    }
    compile_backward_of_blocks();
    for (const StageTraffic::Lot& lot : stage_.traffic().sends_gradients) {
      builder_.add({.op = Op::kSendGradients, .stage = lot.stage}, lot.values);
    }
    for (const StageTraffic::Lot& lot : stage_.traffic().receives) {
      builder_.drop(kNoIndex, lot.values);
    }
  }

  void compile_backward_of_blocks() {
    for (uint32_t b = facts_.num_blocks(); b-- > 0;) {
      if (!stage_.has(b)) {
        continue;
      }
      enter_backward(b);
      if (moves(b)) {
        builder_.add({.op = Op::kBringBack, .block = b}, moves_[b]);
        builder_.set(moves_[b]);
      }
      if (has_backward(b)) {
        compile_backward_of(b);
      }
      builder_.drop(b, {}, kTape);
      drop_moved(b);
      leave_backward(b);
      if (const std::vector<uint32_t>& rows = facts_.rows_first_read_by(b); !rows.empty()) {
        builder_.add({.op = Op::kRowGradients, .block = b}, rows);
        builder_.forget(rows);
      }
      builder_.drop(b, graph_.blocks[b].outputs);
    }
  }

  void compile_backward_of(uint32_t b) {
    if (is_recomputed(b) && again_end_[b] > again_begin_[b]) {
      builder_.add({.op = Op::kRecompute,
                    .when = When::kIfAsked,
                    .block = b,
                    .first = again_begin_[b],
                    .count = again_end_[b] - again_begin_[b]});
      for (uint32_t again = facts_.unit_of(b).first; again <= b; ++again) {
        if (runs_again(again)) {
          builder_.set(graph_.blocks[again].outputs);
        }
      }
    }
    builder_.add({.op = Op::kBackward,
                  .when = When::kIfAsked,
                  .flags = is_tiled(b) ? uint16_t{kInTiles} : uint16_t{0},
                  .block = b});
    builder_.add({.op = Op::kAddGradients, .when = When::kIfAsked, .block = b},
                 inputs_with_gradient(b));
  }

  // At the first block of a unit, drops what was brought back for it. A value that earlier units
  // read too stays until the backward of its maker.
  void drop_moved(uint32_t b) {
    const ModelUnit& unit = facts_.unit_of(b);
    if (b != unit.first || !moves(unit.last)) {
      return;
    }
    std::vector<uint32_t> values;
    std::ranges::copy_if(moves_[unit.last], std::back_inserter(values), [&](uint32_t v) {
      return graph_.values[v].users.front() >= b;
    });
    builder_.drop(b, values);
  }

  const PassKind kind_;
  const GraphFacts& facts_;
  const ModelGraph& graph_;
  const std::span<const GroupFacts> groups_;
  const ProgramOptions& options_;
  const bool is_train_;
  const StageValues stage_;
  const bool is_chunked_;
  const bool moves_groups_;
  const std::vector<bool> can_tile_;          // by block
  const std::vector<bool> is_kept_;           // by value
  std::vector<std::vector<uint32_t>> moves_;  // by block, the last of its unit; empty: none moves
  std::vector<GroupUse> uses_;                // by group
  std::vector<uint32_t> again_begin_;         // by block
  std::vector<uint32_t> again_end_;
  GroupsByBlock enter_forward_;
  GroupsByBlock leave_forward_;
  GroupsByBlock enter_backward_;
  GroupsByBlock leave_backward_;
  ProgramBuilder builder_;
};

}  // namespace

Program compile_program(PassKind kind,
                        const GraphFacts& graph,
                        std::span<const GroupFacts> groups,
                        const ProgramOptions& options) {
  return PassCompiler(kind, graph, groups, options).compile();
}

}  // namespace tenon
