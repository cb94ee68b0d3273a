// SPDX-License-Identifier: Apache-2.0
//
// Source: docs/decisions/0001-block-contract.md describes one autograd graph per block.
#include "host/model/model_runner.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/model/activation_store.hpp"
#include "host/model/leaf.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/trace_span.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <utility>

namespace tenon {

namespace {

// Keeps the parameters of a block gathered during its forward.
class ShardedPass {
 public:
  ShardedPass(ShardedParameters* sharded, uint32_t block) : sharded_(sharded), block_(block) {
    if (sharded_ != nullptr) {
      sharded_->before_forward(block_);
    }
  }
  ~ShardedPass() {
    if (sharded_ != nullptr) {
      sharded_->after_forward(block_);
    }
  }
  ShardedPass(const ShardedPass&) = delete;
  ShardedPass& operator=(const ShardedPass&) = delete;

 private:
  ShardedParameters* sharded_;
  uint32_t block_;
};

// Sharded parameters must learn of each backward if they move anything, or have gradients used and
// freed.
bool is_active(const ShardedParameters& sharded, const ParameterStore& store) {
  return !sharded.is_idle() || std::ranges::any_of(store.groups(), [](const FlatGroup& group) {
    return group.sharing().frees_gradients;
  });
}

}  // namespace

ModelRunner::ModelRunner(ModelList models,
                         ParameterStore& store,
                         const ExecBase& base,
                         RecomputeMode recompute,
                         ShardedParameters* sharded,
                         RowSource* rows)
    : models_(std::move(models)),
      store_(store),
      graph_(store.graph()),
      compute_dtype_(base.compute_dtype),
      recompute_(recompute),
      sharded_(sharded != nullptr && is_active(*sharded, store) ? sharded : nullptr),
      rows_(rows),
      facts_(facts_of(store)),
      blocks_(models_, store, base, facts_.values_with_gradient()),
      values_(graph_.values.size()),
      grads_(graph_.values.size()) {
  tapes_.reserve(graph_.blocks.size());
  for (const auto b : c10::irange(static_cast<uint32_t>(graph_.blocks.size()))) {
    tapes_.push_back(blocks_.make_tape(b));
    TENON_ASSERT(rows_ != nullptr || facts_.rows_first_read_by(b).empty(),
                 "a model with lookups is run with tables");
  }
}

ModelRunner::~ModelRunner() = default;

// A backward needs the values that gradients flow through.
void ModelRunner::drop_read_values(uint32_t b) {
  for (const uint32_t v : facts_.last_read_by(b)) {
    if (!place_.is_train || !facts_.has_backward(graph_.values[v].maker)) {
      values_[v].reset();
    }
  }
}

void check_model_fields(const ModelGraph& graph,
                        const std::vector<FieldInfo>& fields,
                        const std::string& dataset) {
  for (const ModelValue& value : graph.values) {
    if (value.source_kind != TENON_SOURCE_BATCH || value.is_unused) {
      continue;
    }
    const auto found = std::find_if(
        fields.begin(), fields.end(), [&](const FieldInfo& f) { return f.name == value.source; });
    if (found == fields.end() && value.is_optional) {
      continue;
    }
    if (found == fields.end()) {
      throw Error("model.field_missing",
                  std::string("the model reads field '").append(value.source) + "', which " +
                      dataset + " does not have (it has: " + field_names(fields) + ")");
    }
    const Described want{value.dtype, value.axes.has_value() ? &*value.axes : nullptr};
    if (const auto difference = mismatch({found->dtype, &found->axes}, want)) {
      throw Error("model.field_mismatch",
                  "the model's input '" + value.source + "' and the field of " + dataset +
                      " differ: " + *difference);
    }
  }
}

at::Tensor ModelRunner::field_of(uint32_t v, const Batch& batch) const {
  const ModelValue& value = graph_.values[v];
  const at::Tensor* field = batch.find(value.source);
  if (field == nullptr && value.is_optional) {
    return {};
  }
  TENON_ASSERT(field != nullptr, "fields are checked before the first step");
  if (value.dtype == TENON_CLASS_COMPUTE && field->is_floating_point()) {
    return field->to(compute_dtype_);
  }
  return *field;
}

bool ModelRunner::is_recomputed(uint32_t b) const {
  return recompute_ != RecomputeMode::kNone && !is_piece(b) &&
         (recomputed_blocks_.empty() || recomputed_blocks_[b]) &&
         !graph_.blocks[b].has(TENON_BLOCK_NO_RECOMPUTE | TENON_BLOCK_HAND_WRITTEN);
}

void ModelRunner::keep_only(const std::vector<uint32_t>& values) {
  is_kept_.assign(graph_.values.size(), false);
  for (const uint32_t v : values) {
    is_kept_[v] = true;
  }
}

bool ModelRunner::is_dropped(uint32_t v) const {
  return !is_kept_.empty() && !is_kept_[v] &&
         facts_.is_remade(v, [this](uint32_t b) { return is_recomputed(b); });
}

// Drops the values of a unit that backward makes again, after its forward.
void ModelRunner::drop_values(const ModelUnit& unit) {
  for (uint32_t b = unit.first; b <= unit.last; ++b) {
    for (const uint32_t v : graph_.blocks[b].outputs) {
      if (!is_dropped(v)) {
        continue;
      }
      values_[v].reset();
      for (const uint32_t user : graph_.values[v].users) {
        for (size_t i = 0; i < tapes_[user].inputs.size(); ++i) {
          if (graph_.blocks[user].inputs[i] == v) {
            tapes_[user].inputs[i].reset();
          }
        }
      }
    }
  }
}

// Starts a microbatch, and reads the batch fields that blocks use.
void ModelRunner::begin(const Batch& batch, const CallPlace& place) {
  clear();
  place_ = place;
  blocks_.begin(place, static_cast<int64_t>(batch.samples));
  for (const auto v : c10::irange(static_cast<uint32_t>(graph_.values.size()))) {
    if (graph_.values[v].source_kind == TENON_SOURCE_BATCH && !graph_.values[v].users.empty()) {
      values_[v] = field_of(v, batch);
    }
  }
}

// Reads the table values that block `b` is the first to use. On a rank without samples, they stay
// undefined.
void ModelRunner::read_rows(uint32_t b) {
  for (const uint32_t v : facts_.rows_first_read_by(b)) {
    const ModelValue& value = graph_.values[v];
    const uint32_t ids = value.lookup->ids;
    const at::Tensor rows = rows_->rows(v, ids != kNoIndex ? values_[ids] : at::Tensor());
    if (rows.defined()) {
      values_[v] = rows.to(store_.device(), blocks_.border_dtype(v).value_or(compute_dtype_));
    }
  }
}

// Passes the gradients of table values to the tables. Block `b`, the first to read these values, is
// the last to add to their gradients.
void ModelRunner::hand_back_rows(uint32_t b) {
  for (const uint32_t v : facts_.rows_first_read_by(b)) {
    rows_->take_grad(v, std::exchange(grads_[v], at::Tensor()));
    values_[v].reset();
  }
}

void ModelRunner::replay(const Batch& batch,
                         const CallPlace& place,
                         const std::function<bool(uint32_t block)>& seen,
                         RowSource::Lookup lookup) {
  begin(batch, place);
  if (rows_ != nullptr) {
    rows_->begin(&batch, place, lookup);
  }
  bool is_over = false;
  if (sharded_ != nullptr) {
    sharded_->begin_forward(false);
  }
  // Collectives continue to the last block, even if `seen` ends the replay on this rank.
  const bool is_together = sharded_ != nullptr || rows_ != nullptr;
  for (uint32_t b = 0; b < graph_.blocks.size() && (!is_over || is_together); ++b) {
    const ModelBlock& block = graph_.blocks[b];
    read_rows(b);
    const ShardedPass pass(sharded_, b);
    if (is_over) {
      continue;
    }
    BlockTape& tape = tapes_[b];
    for (const uint32_t v : block.inputs) {
      tape.inputs.push_back(as_leaf(values_[v], false));
    }
    if (is_tiled(b)) {
      forward_tiles(b, true);
    } else {
      blocks_.forward(b, {.is_recompute = true, .salt = salt(b)}, tape);
      keep_outputs(b);
    }
    is_over = seen(b);
    tape.clear();
  }
  clear();
}

void ModelRunner::count_loads(const Batch& batch, const CallPlace& place) {
  if (batch.samples == 0) {
    run_idle(place, RowSource::Lookup::kPreview, Extent::kWhole);
    clear();
    return;
  }
  const at::AutoGradMode no_grad(false);
  const auto add_block = [this](uint32_t b) {
    tenon::add_loads(sums(), tapes_[b].aux);
    return b >= sums().last_balanced_block();
  };
  replay(batch, place, add_block, RowSource::Lookup::kPreview);
}

void ModelRunner::add_loads() {
  tenon::add_loads(sums(), aux_losses_);
}

void ModelRunner::forward(const Batch& batch, const CallPlace& place, Extent extent) {
  begin(batch, place);
  if (rows_ != nullptr) {
    rows_->begin(
        &batch, place, place.is_train ? RowSource::Lookup::kTrain : RowSource::Lookup::kEvaluate);
  }
  if (sharded_ != nullptr) {
    sharded_->begin_forward(place.is_train);
  }
  for (const auto b : c10::irange(static_cast<uint32_t>(graph_.blocks.size()))) {
    if (is_left_out(b, extent)) {
      continue;
    }
    const ModelBlock& block = graph_.blocks[b];
    read_rows(b);
    BlockTape& tape = tapes_[b];
    // A recompute runs whole units, with frozen blocks.
    const bool keeps =
        place.is_train && (facts_.has_backward(b) || (is_recomputed(b) && block.model == 0));
    const bool record = keeps && !is_light(b) && !block.has(TENON_BLOCK_HAND_WRITTEN);
    for (const uint32_t v : block.inputs) {
      tape.inputs.push_back(as_leaf(values_[v], record && facts_.has_gradient(v)));
    }
    if (const ShardedPass pass(sharded_, b); is_tiled(b)) {
      forward_tiles(b, false);
    } else {
      const bool keeps_results = keeps && keeps_attention(b);
      blocks_.forward(
          b, {.records = record, .salt = salt(b), .keeps_attention = keeps_results}, tape);
      keep_outputs(b);
    }
    for (const AuxLoss& aux : tape.aux) {
      if (block.model == 0) {
        aux_losses_.push_back(aux);
        aux_losses_.back().sum = aux.sum.detach();
      }
    }
    tape.has_aux = !tape.aux.empty();
    if (!keeps) {
      tape.clear();
    } else if (is_recomputed(b)) {
      tape.outputs.clear();
      tape.aux.clear();
    }
    const ModelUnit unit = facts_.unit_of(b);
    if (place.is_train && b == unit.last && unit.first < b) {
      drop_values(unit);
    }
    drop_read_values(b);
    move_away(b);
  }
  if (place.is_train && recompute_ == RecomputeMode::kSelective) {
    check_kept_attention();
  }
}

// Reads the outputs of a block's tape into the values.
void ModelRunner::keep_outputs(uint32_t b) {
  const ModelBlock& block = graph_.blocks[b];
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    values_[block.outputs[i]] = blocks_.at_border(block.outputs[i], tapes_[b].outputs[i]);
  }
}

// The collectives of a pass, without its blocks.
void ModelRunner::run_idle(const CallPlace& place, RowSource::Lookup lookup, Extent extent) {
  clear();
  place_ = place;
  if (rows_ != nullptr) {
    rows_->begin(nullptr, place, lookup);
  }
  if (sharded_ != nullptr) {
    sharded_->begin_forward(lookup == RowSource::Lookup::kTrain);
  }
  for (const auto b : c10::irange(static_cast<uint32_t>(graph_.blocks.size()))) {
    if (!is_left_out(b, extent)) {
      read_rows(b);
      const ShardedPass pass(sharded_, b);
    }
  }
}

void ModelRunner::forward_idle(const CallPlace& place, Extent extent) {
  run_idle(
      place, place.is_train ? RowSource::Lookup::kTrain : RowSource::Lookup::kEvaluate, extent);
  if (extent == Extent::kAllButTail) {
    enter_tails();
  }
}

void ModelRunner::backward_idle(bool ends_step) {
  if (sharded_ != nullptr) {
    sharded_->begin_backward(ends_step);
  }
  for (auto b = static_cast<uint32_t>(graph_.blocks.size()); b-- > 0;) {
    if (sharded_ != nullptr) {
      sharded_->before_backward(b);
      sharded_->after_backward(b);
    }
    hand_back_rows(b);
  }
  clear();
}

// Each chunk of a block draws from a separate stream of random numbers. Other models, and blocks
// that are skipped, do not change them.
uint32_t ModelRunner::salt(uint32_t b) const {
  const ModelBlock& block = graph_.blocks[b];
  return block.number + piece_.number * block.num_siblings;
}

// Sums from the last user to the first, with the same bits as one graph over the whole model.
// Gradients from autograd may share memory, and so are never changed in place.
void ModelRunner::add_grad(uint32_t v, at::Tensor grad) {
  at::Tensor& sum = grads_[v];
  if (values_[v].defined()) {
    grad = grad.to(values_[v].scalar_type());
  }
  sum = sum.defined() ? sum + grad : std::move(grad);
}

void ModelRunner::backward(double aux_scale, const at::Tensor& loss_scale, bool ends_step) {
  const at::AutoGradMode no_grad(false);
  if (sharded_ != nullptr) {
    sharded_->begin_backward(ends_step);
  }
  for (auto b = static_cast<uint32_t>(graph_.blocks.size()); b-- > 0;) {
    if (sharded_ != nullptr) {
      sharded_->before_backward(b);
    }
    bring_back(b);
    backward_block(b, {aux_scale, loss_scale});
    tapes_[b].clear();
    drop_moved(b);
    if (sharded_ != nullptr) {
      sharded_->after_backward(b);
    }
    hand_back_rows(b);
    for (const uint32_t v : graph_.blocks[b].outputs) {
      values_[v].reset();  // all its users have run backward
    }
  }
  clear();
}

void ModelRunner::backward_block(uint32_t b, const AuxScale& aux_scale) {
  if (!facts_.has_backward(b)) {
    return;
  }
  const ModelBlock& block = graph_.blocks[b];
  std::vector<at::Tensor> grads(block.outputs.size());
  BlockTape& tape = tapes_[b];
  bool is_asked = tape.has_aux;
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    grads[i] = std::exchange(grads_[block.outputs[i]], at::Tensor());
    is_asked = is_asked || (grads[i].defined() && facts_.has_gradient(block.outputs[i]));
  }
  if (!is_asked) {
    return;
  }
  const TraceSpan span("backward of block", block.name);
  if (is_recomputed(b) && recomputed_unit_ != facts_.unit_of(b).first) {
    recompute(b);
  }
  if (is_tiled(b)) {
    backward_tiles(b, grads, aux_scale);
    return;
  }
  for (ValueGrad& input : blocks_.backward(b, salt(b), tape, grads, aux_scale)) {
    add_grad(input.value, std::move(input.grad));
  }
}

// Runs the recomputed blocks of a unit again, to block `last`. Backward then visits them from the
// last one.
void ModelRunner::recompute(uint32_t last) {
  const uint32_t first = facts_.unit_of(last).first;
  recomputed_unit_ = first;
  for (uint32_t b = first; b <= last; ++b) {
    if (!is_recomputed(b)) {
      continue;
    }
    const ModelBlock& block = graph_.blocks[b];
    BlockTape& tape = tapes_[b];
    if (is_tiled(b)) {  // backward makes the tiles again; later blocks may need the outputs
      if (std::ranges::any_of(block.outputs, [this](uint32_t v) { return is_dropped(v); })) {
        forward_tiles(b, true);
      }
      continue;
    }
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      tape.inputs[i] = as_leaf(kept_input(b, i), facts_.has_gradient(block.inputs[i]));
    }
    blocks_.forward(b,
                    {.records = true,
                     .is_recompute = true,
                     .salt = salt(b),
                     .keeps_attention = keeps_attention(b)},
                    tape);
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      at::Tensor& value = values_[block.outputs[i]];
      if (!value.defined()) {
        value = blocks_.at_border(block.outputs[i], tape.outputs[i]);
      }
    }
  }
}

void ModelRunner::clear() {
  if (sharded_ != nullptr) {
    sharded_->end_pass();
  }
  for (auto& tape : tapes_) {
    tape.clear();
  }
  for (auto& value : values_) {
    value.reset();
  }
  for (auto& grad : grads_) {
    grad.reset();
  }
  aux_losses_.clear();
  tail_grads_.clear();
  piece_ = {};
  moved_.clear();
  reloaded_ = {};
  if (offloaded_ != nullptr) {
    offloaded_->clear();
  }
  recomputed_unit_ = kNoIndex;
}

}  // namespace tenon
