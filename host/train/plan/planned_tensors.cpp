// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_tensors.hpp"

#include <utility>

namespace tenon {

PlannedTensor PlannedTensors::make(Kind kind, int64_t bytes) {
  return add({.kind = kind, .holders = 1, .bytes = bytes, .rounding = block_bytes(bytes) - bytes});
}

PlannedTensor PlannedTensors::make_several(Kind kind, int64_t bytes) {
  return add({.kind = kind, .holders = 1, .bytes = bytes, .rounding = 0});
}

PlannedTensor PlannedTensors::add(const Tensor& tensor) {
  if (tensor.bytes == 0) {
    return 0;
  }
  bytes_[static_cast<size_t>(tensor.kind)] += tensor.bytes;
  rounding_ += tensor.rounding;
  if (freed_.empty()) {
    tensors_.push_back(tensor);
    return static_cast<PlannedTensor>(tensors_.size() - 1);
  }
  const PlannedTensor index = freed_.back();
  freed_.pop_back();
  tensors_[index] = tensor;
  return index;
}

PlannedTensor PlannedTensors::hold(PlannedTensor tensor) {
  tensors_[tensor].holders += tensor != 0 ? 1 : 0;
  return tensor;
}

void PlannedTensors::release(PlannedTensor& tensor) {
  const PlannedTensor held = std::exchange(tensor, 0);
  if (held == 0 || --tensors_[held].holders > 0) {
    return;
  }
  bytes_[static_cast<size_t>(tensors_[held].kind)] -= tensors_[held].bytes;
  rounding_ -= tensors_[held].rounding;
  freed_.push_back(held);
}

}  // namespace tenon
