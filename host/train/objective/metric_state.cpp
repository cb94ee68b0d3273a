// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/metric_state.hpp"

#include "host/error/assert.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kMetricStateVersion = 1;

at::TensorOptions options_of(const MetricStateSpec& spec) {
  return at::TensorOptions(*scalar_type_of(spec.dtype));
}

// Reduces element by element over all ranks.
void reduce_in_place(at::Tensor& tensor, Group& ranks, Reduce reduce) {
  // In the widest type of its class, so that values that are exact on one rank stay exact.
  const bool is_float = tensor.is_floating_point();
  const at::Tensor wide = tensor.to(at::kCPU, is_float ? at::kDouble : at::kLong, false, true);
  const auto size = static_cast<size_t>(wide.numel());
  if (is_float) {
    ranks.all_reduce(std::span(wide.mutable_data_ptr<double>(), size), reduce, "state of a metric");
  } else {
    ranks.all_reduce(
        std::span(wide.mutable_data_ptr<int64_t>(), size), reduce, "state of a metric");
  }
  tensor.copy_(wide);
}

// Returns bit-identical copies of the tensors of all ranks, in rank order. The sizes of their first
// axis may differ.
std::vector<at::Tensor> gather(const at::Tensor& tensor, Group& ranks) {
  const at::Tensor own = tensor.to(at::kCPU).contiguous();
  std::vector<int64_t> shape = own.sizes().vec();
  int64_t row_bytes = static_cast<int64_t>(own.element_size());
  for (size_t d = 1; d < shape.size(); ++d) {
    row_bytes *= shape[d];
  }
  std::vector<at::Tensor> all;
  for (const std::string& bytes : ranks.gather_texts(
           {static_cast<const char*>(own.const_data_ptr()), own.nbytes()}, "state of a metric")) {
    if (!shape.empty()) {
      shape[0] = row_bytes > 0 ? static_cast<int64_t>(bytes.size()) / row_bytes : own.size(0);
    }
    all.push_back(at::empty(shape, own.options()));
    if (!bytes.empty()) {
      std::memcpy(all.back().mutable_data_ptr(), bytes.data(), bytes.size());
    }
  }
  return all;
}

}  // namespace

void MetricState::reset() {
  is_started_ = false;
  tensors_.clear();
  parts_.clear();
}

void MetricState::start(const tenon_exec& exec, at::Device device) {
  const auto& specs = metric_->info().states;
  tensors_.assign(specs.size(), at::Tensor());
  parts_.assign(specs.size(), {});
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].reduce != TENON_REDUCE_CONCAT) {
      tensors_[i] = at::full(specs[i].shape, specs[i].init, options_of(specs[i]).device(device));
    }
  }
  is_started_ = true;
  metric_->reset(exec, handles_in_place().data());
}

void MetricState::update(const tenon_exec& exec,
                         const tenon_tensor* const* inputs,
                         size_t num_inputs,
                         at::Device device) {
  const c10::NoGradGuard no_grad;
  if (!is_started_) {
    start(exec, device);
  }
  const auto& specs = metric_->info().states;
  OwnHandles appended(specs.size());
  metric_->update(exec, inputs, num_inputs, handles_in_place().data(), appended.data());
  const std::vector<at::Tensor> parts = appended.take(metric_->instance().identity(), "update");
  for (size_t i = 0; i < specs.size(); ++i) {
    const at::Tensor& part = parts[i];
    if (!part.defined()) {
      continue;
    }
    const MetricStateSpec& spec = specs[i];
    std::vector<int64_t> shape = spec.shape;
    if (spec.reduce == TENON_REDUCE_CONCAT && part.dim() > 0) {
      shape[0] = part.size(0);
    }
    if (spec.reduce != TENON_REDUCE_CONCAT || part.sizes() != shape ||
        part.scalar_type() != *scalar_type_of(spec.dtype)) {
      metric_->instance().identity().fail_result(
          "update appended " + shape_text(part.sizes()) + " of " +
          c10::toString(part.scalar_type()) + " to state \"" + spec.name + "\", which is " +
          (spec.reduce == TENON_REDUCE_CONCAT
               ? shape_text(spec.shape) + " of " + c10::toString(*scalar_type_of(spec.dtype))
               : "not reduced by CONCAT"));
    }
    parts_[i].push_back(part.detach());
  }
}

void MetricState::merge(const tenon_exec& exec, const MetricState& next) {
  TENON_ASSERT(metric_ == next.metric_, "states of two metrics");
  const c10::NoGradGuard no_grad;
  if (!next.is_started_) {
    return;
  }
  const auto& specs = metric_->info().states;
  if (!is_started_) {
    is_started_ = true;
    parts_ = next.parts_;
    tensors_.clear();
    for (const at::Tensor& tensor : next.tensors_) {
      tensors_.push_back(tensor.defined() ? tensor.clone() : at::Tensor());
    }
    return;
  }
  bool has_own = false;
  std::vector<const tenon_tensor*> others(specs.size(), nullptr);
  for (size_t i = 0; i < specs.size(); ++i) {
    switch (specs[i].reduce) {
      case TENON_REDUCE_SUM:
        tensors_[i].add_(next.tensors_[i]);
        break;
      case TENON_REDUCE_MAX:
        tensors_[i].copy_(at::maximum(tensors_[i], next.tensors_[i]));
        break;
      case TENON_REDUCE_CONCAT:
        parts_[i].insert(parts_[i].end(), next.parts_[i].begin(), next.parts_[i].end());
        break;
      default:
        has_own = true;
        others[i] = borrow(next.tensors_[i]);
    }
  }
  if (has_own) {
    metric_->merge(exec, handles_of_own().data(), others.data());
  }
}

void MetricState::merge_ranks(const tenon_exec& exec, Group& ranks) {
  if (ranks.size() == 1) {
    return;
  }
  const c10::NoGradGuard no_grad;
  if (!is_started_) {  // a rank without data takes part, too
    start(exec, at::kCPU);
  }
  const auto& specs = metric_->info().states;
  std::vector<std::vector<at::Tensor>> own(specs.size());  // by state, then by rank
  bool has_own = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    switch (specs[i].reduce) {
      case TENON_REDUCE_SUM:
        reduce_in_place(tensors_[i], ranks, Reduce::kSum);
        break;
      case TENON_REDUCE_MAX:
        reduce_in_place(tensors_[i], ranks, Reduce::kMax);
        break;
      case TENON_REDUCE_CONCAT:
        parts_[i] = gather(whole(i), ranks);
        break;
      default:
        has_own = true;
        own[i] = gather(tensors_[i], ranks);
        tensors_[i].copy_(own[i].front());
    }
  }
  for (uint32_t rank = 1; has_own && rank < ranks.size(); ++rank) {
    std::vector<const tenon_tensor*> others(specs.size(), nullptr);
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!own[i].empty()) {
        own[i][rank] = own[i][rank].to(tensors_[i].device());
        others[i] = borrow(own[i][rank]);
      }
    }
    metric_->merge(exec, handles_of_own().data(), others.data());
  }
}

std::vector<double> MetricState::compute(const tenon_exec& exec) {
  const c10::NoGradGuard no_grad;
  if (!is_started_) {
    start(exec, at::kCPU);
  }
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    all.push_back(whole(i));
  }
  std::vector<const tenon_tensor*> handles;
  handles.reserve(all.size());
  for (const at::Tensor& tensor : all) {
    handles.push_back(borrow(tensor));
  }
  return metric_->compute(exec, handles.data());
}

void MetricState::snapshot(StateTree& tree, const std::string& prefix) const {
  const auto& specs = metric_->info().states;
  tree.set_version(prefix, kMetricStateVersion);
  tree.put_int(state_path(prefix, "started"), is_started_ ? 1 : 0, TENON_STATE_PER_RANK);
  for (size_t i = 0; is_started_ && i < specs.size(); ++i) {
    const bool has_rows = specs[i].reduce != TENON_REDUCE_CONCAT || !parts_[i].empty();
    if (has_rows) {
      tree.put_tensor(state_path(prefix, "states/" + specs[i].name),
                      whole(i),
                      StateTree::Copy::kYes,
                      TENON_STATE_PER_RANK);
    }
  }
}

void MetricState::load(const StateTree& tree, const std::string& prefix) {
  reset();
  if (tree.find(state_path(prefix, "started")) == nullptr ||
      tree.get_int(state_path(prefix, "started")) == 0) {
    return;  // no updates yet, or another number of ranks
  }
  const auto& specs = metric_->info().states;
  tensors_.assign(specs.size(), at::Tensor());
  parts_.assign(specs.size(), {});
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string name = state_path(prefix, "states/" + specs[i].name);
    if (specs[i].reduce != TENON_REDUCE_CONCAT) {
      // A version of the plugin that saved the state may not have had this part of it.
      tensors_[i] = tree.find(name) != nullptr
                        ? tree.get_tensor(name).clone()
                        : at::full(specs[i].shape, specs[i].init, options_of(specs[i]));
    } else if (tree.find(name) != nullptr) {
      parts_[i].push_back(tree.get_tensor(name));
    }
  }
  is_started_ = true;
}

at::Tensor MetricState::whole(size_t i) const {
  const MetricStateSpec& spec = metric_->info().states[i];
  if (spec.reduce != TENON_REDUCE_CONCAT) {
    return tensors_[i];
  }
  return parts_[i].empty() ? at::empty(spec.shape, options_of(spec)) : at::cat(parts_[i]);
}

std::vector<tenon_tensor*> MetricState::handles_in_place() {
  std::vector<tenon_tensor*> handles;
  for (at::Tensor& tensor : tensors_) {
    handles.push_back(tensor.defined() ? borrow_mutable(tensor) : nullptr);
  }
  return handles;
}

std::vector<tenon_tensor*> MetricState::handles_of_own() {
  std::vector<tenon_tensor*> handles = handles_in_place();
  for (size_t i = 0; i < handles.size(); ++i) {
    if (metric_->info().states[i].reduce != TENON_REDUCE_OWN) {
      handles[i] = nullptr;
    }
  }
  return handles;
}

}  // namespace tenon
