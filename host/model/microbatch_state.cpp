// SPDX-License-Identifier: Apache-2.0
#include "host/model/microbatch_state.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/model/activation_store.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/tensor/batch_positions.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Undefined if the batch lacks the field.
at::Tensor field_of(const ModelValue& value, const Batch& batch, at::ScalarType compute_dtype) {
  const at::Tensor* const field = batch.find(value.source);
  if (field == nullptr) {
    return {};
  }
  const bool is_compute = value.dtype == TENON_CLASS_COMPUTE && field->is_floating_point();
  return is_compute ? field->to(compute_dtype) : *field;
}

// Returns the numbers of the positions of a batch, for a model that would count those of a piece.
// Shapes  the result [B, T]
at::Tensor positions_of(const Batch& batch) {
  const auto given =
      std::ranges::find_if(batch.fields, [](const at::Tensor& field) { return field.defined(); });
  return position_ids({.begin = 0, .length = *num_positions(batch)}, batch.samples)
      .to(given->device());
}

void reset_all(std::vector<at::Tensor>& tensors) {
  for (at::Tensor& tensor : tensors) {
    tensor.reset();
  }
}

}  // namespace

MicrobatchState::MicrobatchState(const GraphFacts& facts, const BlockRunner& blocks)
    : facts_(&facts), values_(facts.graph().values.size()), grads_(values_.size()) {
  for (uint32_t b = 0; b < facts.num_blocks(); ++b) {
    tapes_.push_back(blocks.make_tape(b));
  }
}

void MicrobatchState::start(const Start& start, at::ScalarType compute_dtype) {
  program_ = &start.program;
  number_ = start.number;
  point_ = start.point;
  lookup_ = start.lookup;
  num_samples_ = static_cast<int64_t>(start.batch.samples);
  batch_ = num_samples_ > 0 ? &start.batch : nullptr;
  if (start.sequences != nullptr && batch_ != nullptr) {
    divided_.positions.divide(DividedSequences{.group = start.sequences,
                                               .parts = start.sequences->parts_of(start.batch)});
  }
  divided_.tensor = start.tensor;
  if (start.has_pieces && batch_ != nullptr) {
    const std::optional<int64_t> positions = num_positions(start.batch);
    TENON_ASSERT(positions.has_value(), "a batch of which ranks have pieces has positions");
    divided_.positions.divide(*start.tensor, *positions);
  }
  const std::vector<ModelValue>& values = facts_->graph().values;
  for (uint32_t v = 0; batch_ != nullptr && v < values.size(); ++v) {
    if (values[v].source_kind == TENON_SOURCE_BATCH && !values[v].users.empty()) {
      values_[v] = field_of(values[v], start.batch, compute_dtype);
      if (start.has_pieces && !values_[v].defined() && values[v].source == kPositionsField) {
        values_[v] = positions_of(start.batch);
      }
    }
  }
}

void MicrobatchState::clear(const PassServices& services) {
  for (const uint32_t g : std::exchange(whole_groups_, {})) {
    services.groups->await(g);
    services.groups->free(g);
  }
  for (BlockTape& tape : tapes_) {
    tape.clear();
  }
  rows_.reset();
  reset_all(values_);
  reset_all(grads_);
  aux_losses_.clear();
  returned_ = {};
  chunk_ = {};
  chunk_inputs_ = {};
  moved_.clear();
  if (services.activations != nullptr) {
    services.activations->drop(number_);
  }
  program_ = nullptr;
  batch_ = nullptr;
  num_samples_ = 0;
  divided_ = {};
  is_last_microbatch_ = true;
  aux_scale_ = {};
}

Extent MicrobatchState::extent(uint32_t v) const {
  const ModelValue& value = facts_->graph().values[v];
  const bool is_piece = positions().has_pieces() && value.maker != kNoIndex && !value.is_divided &&
                        axis_of_positions(value).has_value() &&
                        !(program_->has_chunks() && facts_->is_tail(value.maker));
  return is_piece ? Extent::kPiece : Extent::kPart;
}

at::Tensor MicrobatchState::value_of_part(uint32_t v) const {
  if (!values_[v].defined() || extent(v) == Extent::kPart) {
    return values_[v];
  }
  const ModelValue& value = facts_->graph().values[v];
  return positions().convert(
      values_[v], *axis_of_positions(value), Extent::kPiece, Extent::kPart, "value " + value.name);
}

void MicrobatchState::add_grad_of_part(uint32_t v, at::Tensor grad) {
  if (const Extent held = extent(v); held == Extent::kPiece) {
    const ModelValue& value = facts_->graph().values[v];
    const int64_t axis = *axis_of_positions(value);
    grad = positions().convert(grad, axis, Extent::kPart, held, value.name).contiguous();
  }
  add_grad(v, std::move(grad));
}

void MicrobatchState::gather_values() {
  const std::vector<ModelValue>& values = facts_->graph().values;
  divided_.whole_values.resize(values.size());
  for (uint32_t v = 0; tensor() != nullptr && v < values.size(); ++v) {
    if (divided_.whole_values[v].defined()) {
      continue;  // gathered after an earlier stage
    }
    if (extent(v) == Extent::kPiece && values[v].is_read) {
      divided_.whole_values[v] = value_of_part(v);
    }
    if (values[v].is_divided && values_[v].defined()) {
      divided_.whole_values[v] =
          tensor()->whole(values_[v], *values[v].split, "value " + values[v].name);
    }
  }
}

// Sums from the last user to the first, with the same bits as one graph over the whole model.
// Gradients from autograd may share memory, and so are never changed in place.
void MicrobatchState::add_grad(uint32_t v, at::Tensor grad) {
  at::Tensor& sum = grads_[v];
  if (values_[v].defined()) {
    grad = grad.to(values_[v].scalar_type());
  }
  sum = sum.defined() ? sum + grad : std::move(grad);
}

}  // namespace tenon
