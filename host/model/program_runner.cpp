// SPDX-License-Identifier: Apache-2.0
#include "host/model/program_runner.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/model/stages.hpp"
#include "host/tensor/trace_span.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Returns those of the plan, or compiles them.
std::shared_ptr<PassPrograms> programs_of(const RunnerOptions& options,
                                          const ParameterStore& store,
                                          const ShardedParameters* groups,
                                          bool moves_activations) {
  std::vector<GroupFacts> facts = group_facts(store, store.graph());
  if (options.programs != nullptr) {
    TENON_ASSERT(options.programs->groups() == facts, "the store has the groups of the plan");
    return options.programs;
  }
  return std::make_shared<PassPrograms>(
      facts_of(store),
      std::move(facts),
      ProgramOptions{.recomputed = options.recomputed,
                     .keeps_attention = options.keeps_attention,
                     .tiles = options.tile > 0,
                     .moves_activations = moves_activations,
                     .kept = options.kept,
                     .reshard_after_forward =
                         groups != nullptr ? groups->reshard_after_forward() : std::nullopt,
                     .has_many_ranks = groups != nullptr && groups->has_many_ranks()});
}

std::vector<Extent> extents_for(const BlockRunner& blocks,
                                const ModelGraph& graph,
                                bool has_parts,
                                const RunnerOptions& options) {
  if (!has_parts && !options.has_pieces) {
    return {};
  }
  return block_extents(
      graph,
      {.has_parts = has_parts, .has_pieces = options.has_pieces, .has_tiles = options.tile > 0},
      [&blocks](uint32_t i) { return blocks.sums().is_summed(i); });
}

// Returns the stages of this rank.
std::vector<uint32_t> own_stages(const ModelGraph& graph) {
  auto first = static_cast<uint32_t>(graph.stage_owners.size() - 1);
  for (const ModelBlock& block : graph.blocks) {
    first = block.is_elsewhere ? first : std::min(first, block.stage);
  }
  return stages_of(graph, graph.stage_owners[first]);
}

bool has_messages(const ModelGraph& graph) {
  return std::ranges::any_of(
      graph.stage_owners, [&graph](uint32_t owner) { return owner != graph.stage_owners.front(); });
}

}  // namespace

ProgramRunner::ProgramRunner(ModelList models,
                             ParameterStore& store,
                             const ExecBase& base,
                             RunnerOptions options,
                             ShardedParameters* groups,
                             RowSource* rows,
                             std::unique_ptr<ActivationStore> activations,
                             SequenceGroup* sequences,
                             TensorGroup* tensor,
                             StageExchange* exchange)
    : models_(std::move(models)),
      store_(store),
      graph_(store.graph()),
      options_(std::move(options)),
      groups_(groups),
      activations_(std::move(activations)),
      programs_(programs_of(options_, store, groups, activations_ != nullptr)),
      blocks_(models_, store, base, facts().values_with_gradient()),
      services_{.store = store,
                .blocks = blocks_,
                .groups = groups,
                .rows = rows,
                .activations = activations_.get(),
                .tile = options_.tile,
                .compute_dtype = base.compute_dtype,
                .sequences = sequences,
                .tensor = tensor,
                .has_pieces = options_.has_pieces,
                .extents = extents_for(blocks_, graph_, sequences != nullptr, options_),
                .exchange = exchange},
      stages_(own_stages(graph_)) {
  TENON_ASSERT(exchange != nullptr || !has_messages(graph_), "stages exchange values");
  TENON_ASSERT(tensor != nullptr || !options_.has_pieces,
               "the ranks of a tensor group hold pieces");
  if (tensor != nullptr) {
    blocks_.divide(*tensor);
  }
  if (sequences != nullptr) {
    blocks_.run_whole(whole_blocks(graph_), sequences->rank());
  }
  for (uint32_t b = 0; b < facts().num_blocks(); ++b) {
    TENON_ASSERT(rows != nullptr || facts().rows_first_read_by(b).empty(),
                 "a model with lookups is run with tables");
  }
}

ProgramRunner::~ProgramRunner() = default;

// ---- microbatches ----

void ProgramRunner::start(MicrobatchState& state,
                          const Program& program,
                          const Batch& batch,
                          const CallPoint& point,
                          RowSource::Lookup lookup) {
  state.clear(services_);
  state.start({.program = program,
               .number = ++num_started_,
               .batch = batch,
               .point = point,
               .lookup = lookup,
               .sequences = services_.sequences,
               .tensor = services_.tensor,
               .has_pieces = services_.has_pieces},
              services_.compute_dtype);
}

// Sets the calls of blocks to the microbatch.
void ProgramRunner::enter(const MicrobatchState& state) {
  if (state.num_samples_ > 0 && entered_ != state.number_) {
    blocks_.begin(state.point_, state.num_samples_, state.divided());
    entered_ = state.number_;
  }
}

void ProgramRunner::run(MicrobatchState& state,
                        Section section,
                        LossPort* losses,
                        const std::function<bool(uint32_t block)>* seen) {
  enter(state);
  const PassConditions conditions = {.has_samples = state.num_samples_ > 0,
                                     .is_last_microbatch = state.is_last_microbatch_,
                                     .is_first_chunk = state.chunk_.number <= 1,
                                     .is_last_chunk = state.chunk_.is_last};
  ProgramPass pass(services_, state, losses, seen);
  interpret(*state.program_, section, conditions, pass);
}

void ProgramRunner::forward(MicrobatchState& state,
                            const Batch& batch,
                            const CallPoint& point,
                            Losses losses,
                            uint32_t stage) {
  const Program& of_stage =
      program(point.is_train ? PassKind::kTrain : PassKind::kEvaluate, losses, stage);
  if (stage == stages_.front()) {
    start(state,
          of_stage,
          batch,
          point,
          point.is_train ? RowSource::Lookup::kTrain : RowSource::Lookup::kEvaluate);
  }
  TENON_ASSERT(state.program_ != nullptr, "the first stage of the rank starts a microbatch");
  state.program_ = &of_stage;
  run(state, Section::kForward, nullptr);
  state.batch_ = nullptr;
  if (options_.gathers_values) {
    state.gather_values();
  }
  const bool is_whole = graph_.stage_owners.size() == 1;  // a stage may have no attention
  if (point.is_train && batch.samples > 0 && options_.keeps_attention && is_whole) {
    check_kept_attention(state);
  }
}

// Returns the size of T that chunks are cut from.
int64_t ProgramRunner::num_positions(const MicrobatchState& state) const {
  const std::vector<uint32_t>& inputs = graph_.blocks.back().inputs;
  const auto given =
      std::ranges::find_if(inputs, [&state](uint32_t v) { return state.values_[v].defined(); });
  TENON_ASSERT(given != inputs.end(), "the last block has an input that is always given");
  if (state.extent(*given) == Extent::kPiece) {
    const std::vector<int64_t>& pieces = state.positions().pieces();
    return std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
  }
  return state.values_[*given].size(*axis_of_positions(graph_.values[*given]));
}

void ProgramRunner::run_losses(MicrobatchState& state, LossPort& losses) {
  if (!state.program_->has_chunks() || state.num_samples_ == 0) {
    run(state, Section::kLosses, &losses);
    return;
  }
  const int64_t positions = num_positions(state);
  // At least one chunk, also of no positions: ranks reduce the gradients of the last block
  // together.
  for (int64_t begin = 0; begin == 0 || begin < positions; begin += options_.loss_chunk) {
    const TraceSpan span("tile of the loss");
    const int64_t length = std::min(options_.loss_chunk, positions - begin);
    state.chunk_ = {.number = state.chunk_.number + 1,
                    .begin = begin,
                    .length = length,
                    .is_last = begin + length == positions};
    run(state, Section::kLosses, &losses);
  }
  state.chunk_ = {};
}

void ProgramRunner::backward(MicrobatchState& state,
                             LossPort* losses,
                             const AuxScale& aux_scale,
                             bool ends_step,
                             uint32_t stage) {
  const at::AutoGradMode no_grad(false);
  TENON_ASSERT(state.program_ != nullptr, "a backward follows the forward of its microbatch");
  if (state.program_->stage() != stage) {
    TENON_ASSERT(stage + 1 < graph_.stage_owners.size(), "the last stage runs backward first");
    state.program_ = &program(PassKind::kTrain, Losses::kWhole, stage);
  }
  state.aux_scale_ = aux_scale;
  state.is_last_microbatch_ = ends_step;
  run(state, Section::kBackward, losses);
  run(state, Section::kEnd, nullptr);
  if (stage == stages_.front()) {
    clear(state);
  }
}

void ProgramRunner::replay(MicrobatchState& state,
                           const Batch& batch,
                           const CallPoint& point,
                           const std::function<bool(uint32_t block)>& seen,
                           RowSource::Lookup lookup) {
  start(state, program(PassKind::kReplay, Losses::kWhole, stages_.front()), batch, point, lookup);
  for (const uint32_t stage : stages_) {
    state.program_ = &program(PassKind::kReplay, Losses::kWhole, stage);
    run(state, Section::kForward, nullptr, &seen);
    run(state, Section::kEnd, nullptr);
  }
  clear(state);
}

// A setting without effect is refused, as soon as it shows.
void ProgramRunner::check_kept_attention(const MicrobatchState& state) const {
  bool has_recomputed = false;
  for (const Instruction& instruction : state.program_->section(Section::kForward)) {
    const uint32_t b = instruction.block;
    if (instruction.op != Op::kKeep || !instruction.has(kInputsOnly) || facts().is_tail(b) ||
        !options_.recomputed[b]) {
      continue;
    }
    if (state.tapes_[b].attention.has_kept()) {
      return;
    }
    has_recomputed = true;
  }
  if (has_recomputed) {
    throw Error("model.no_attention",
                "/train/recompute: \"selective\" keeps results of the host's attention kernel, and "
                "no recomputed block uses it; set \"blocks\"");
  }
}

// ---- sums over a step ----

void ProgramRunner::count_loads(MicrobatchState& state,
                                const Batch& batch,
                                const CallPoint& point) {
  const at::AutoGradMode no_grad(false);
  const auto add_block = [this, &state](uint32_t b) {
    add_loads(sums(), state.tapes_[b].aux);
    const bool is_last = b >= sums().last_balanced_block();
    return is_last && graph_.stage_owners.size() == 1;  // later stages wait for values
  };
  replay(state, batch, point, add_block, RowSource::Lookup::kPreview);
}

}  // namespace tenon
