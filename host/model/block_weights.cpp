// SPDX-License-Identifier: Apache-2.0
#include "host/model/block_weights.hpp"

#include <tenon/model.h>

#include "host/model/parametrized_graph.hpp"
#include "host/tensor/handle.hpp"

namespace tenon {

// One parameter that a parametrization computes.
class BlockWeights::Weight final : public LinearMap {
 public:
  Weight(size_t position,
         const std::string& name,
         const ModelParametrization& made,
         ParameterStore& store,
         const ExecBase& base,
         bool is_linear)
      : position_(position),
        name_(name),
        shape_(made.shape_in_block()),
        proxy_(*made.proxy),
        frame_(proxy_.instance().host(), base) {
    for (const uint32_t p : made.reals) {
      reals_.push_back(borrow(store.leaf(p)));
    }
    for (const uint32_t b : made.buffers) {
      buffers_.push_back(borrow(store.buffer(b)));
    }
    if (is_linear && proxy_.has_product() && shape_.size() == 2) {
      stand_in_ = make_stand_in(shape_, store.seen_dtype(made.dtype));
    }
  }

  size_t position() const { return position_; }
  const std::string& name() const { return name_; }
  ExecFrame& frame() { return frame_; }
  // Undefined if the block gets the effective parameter.
  const at::Tensor& stand_in() const { return stand_in_; }

  at::Tensor product(const at::Tensor& x) const override {
    return proxy_.product(frame_.exec(), x, reals_, buffers_, shape_);
  }

  at::Tensor weight() const override {
    return proxy_.effective(frame_.exec(), reals_, buffers_, shape_);
  }

 private:
  size_t position_;  // in the block's parameters
  const std::string& name_;
  std::vector<int64_t> shape_;  // in the block
  const ParametrizationProxy& proxy_;
  ExecFrame frame_;
  ParametrizationProxy::Handles reals_;
  ParametrizationProxy::Handles buffers_;
  at::Tensor stand_in_;
};

BlockWeights::BlockWeights(ParameterStore& store,
                           const ModelGraph& graph,
                           uint32_t block,
                           const ExecBase& base) {
  const auto declared = graph.blocks[block].declared_parameters();
  for (size_t i = 0; i < declared.size(); ++i) {
    const ModelParameter& named = graph.parameters[declared[i]];
    // A block of another model sees a parameter that it shares as it is stored.
    const bool is_shared = named.model != graph.blocks[block].model;
    const ModelParametrization* const made =
        is_shared ? nullptr : parametrization_of(graph, declared[i]);
    if (made != nullptr) {
      const bool is_linear = (named.flags & TENON_PARAM_LINEAR) != 0;
      weights_.push_back(std::make_unique<Weight>(i, named.name, *made, store, base, is_linear));
    }
  }
}

BlockWeights::BlockWeights(BlockWeights&&) noexcept = default;

BlockWeights::~BlockWeights() = default;

void BlockWeights::move_to(const CallPoint& point) {
  for (const auto& weight : weights_) {
    weight->frame().move_to(point);
  }
}

void BlockWeights::use_stream_before(uint64_t ranks) {
  for (const auto& weight : weights_) {
    weight->frame().use_stream_before(ranks);
  }
}

std::string BlockWeights::names_of_stand_ins() const {
  std::string names;
  for (const auto& weight : weights_) {
    if (weight->stand_in().defined()) {
      names += (names.empty() ? "'" : ", '") + weight->name() + "'";
    }
  }
  return names;
}

BlockWeights::Call::Call(BlockWeights& weights,
                         uint32_t salt,
                         bool is_recompute,
                         std::vector<const tenon_tensor*>& handles) {
  effective_.reserve(weights.weights_.size());  // handles point at its elements
  for (const auto& weight : weights.weights_) {
    weight->frame().seed_for(salt);
    weight->frame().set_recompute(is_recompute);
    if (weight->stand_in().defined()) {
      scope_.add(weight->stand_in(), *weight);
      handles[weight->position()] = borrow(weight->stand_in());
    } else {
      effective_.push_back(weight->weight());
      handles[weight->position()] = borrow(effective_.back());
    }
  }
}

BlockWeights::Call::~Call() = default;

}  // namespace tenon
