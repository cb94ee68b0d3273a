// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/merged_weights.hpp"

#include "host/plugin/parametrization_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace tenon {
namespace {

const Weight& weight_named(const std::vector<Weight>& weights, uint32_t parameter) {
  return *std::ranges::find(weights, parameter, &Weight::parameter);
}

const Weight& buffer_named(const std::vector<Weight>& weights, uint32_t buffer) {
  return *std::ranges::find(weights, buffer, &Weight::buffer);
}

ParametrizationProxy::Handles borrow_each(const std::vector<at::Tensor>& tensors) {
  ParametrizationProxy::Handles handles;
  for (const at::Tensor& tensor : tensors) {
    handles.push_back(borrow(tensor));
  }
  return handles;
}

}  // namespace

MergedWeights::MergedWeights(const StateTree& state,
                             const std::string& address,
                             const ModelGraph& graph,
                             const std::vector<Weight>& weights,
                             std::optional<at::ScalarType> dtype,
                             const WeightConversion& convert,
                             const ExecBase& base)
    : dtype_(dtype), base_(base) {
  const std::vector<Weight> own = own_layout_map(graph).weights;
  std::vector<Weight> plain;
  for (size_t w = 0; w < weights.size(); ++w) {
    plain_of_.push_back(plain.size());
    if (weights[w].parametrization == kNoIndex) {
      plain.push_back(weights[w]);
      continue;
    }
    const ModelParametrization& from = graph.parametrizations[weights[w].parametrization];
    std::vector<Weight> reals;
    std::vector<Weight> buffers;
    for (const uint32_t p : from.reals) {
      reals.push_back(weight_named(own, p));
    }
    for (const uint32_t b : from.buffers) {
      buffers.push_back(buffer_named(own, b));
    }
    Made made{.from = &from,
              .reals = SavedWeights(state, address, reals, std::nullopt),
              .buffers = SavedWeights(state, address, buffers, std::nullopt),
              .dtype = at::kFloat};
    made.reals.convert_by(convert);
    if (!reals.empty()) {
      made.dtype = made.reals.dtype(reals.size() - 1);
    }
    made_.emplace(w, std::move(made));
  }
  plain_.emplace(state, address, plain, dtype);
  plain_->convert_by(convert);
}

at::ScalarType MergedWeights::dtype(size_t w) const {
  const auto found = made_.find(w);
  return found == made_.end() ? plain_->dtype(plain_of_[w]) : dtype_.value_or(found->second.dtype);
}

at::Tensor MergedWeights::read(size_t w) const {
  const auto found = made_.find(w);
  return found == made_.end() ? plain_->read(plain_of_[w])
                              : effective(found->second).to(dtype(w)).contiguous();
}

at::Tensor MergedWeights::effective(const Made& made) const {
  const at::AutoGradMode no_grad(false);
  std::vector<at::Tensor> reals;
  for (size_t i = 0; i < made.from->reals.size(); ++i) {
    reals.push_back(made.reals.read(i));
  }
  std::vector<at::Tensor> buffers;
  for (size_t i = 0; i < made.from->buffers.size(); ++i) {
    buffers.push_back(made.buffers.read(i));
  }
  ExecFrame frame(made.from->proxy->instance().host(), base_);
  frame.move_to({.step = 0, .microbatch = 0, .is_train = false});
  return made.from->proxy->effective(frame.exec(), borrow_each(reals), borrow_each(buffers));
}

}  // namespace tenon
