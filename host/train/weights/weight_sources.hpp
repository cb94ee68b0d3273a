// SPDX-License-Identifier: Apache-2.0
//
// The sources of the weights of a model, collected from the tensors of files: a weight comes from
// rows of one tensor, or from one tensor for each of its slices.
// Threads: one at a time; the sources may be read by any, concurrently.
#pragma once

#include "host/tensor/state/tensor_source.hpp"
#include "host/train/weights/layout_map.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tenon {

class WeightSources {
 public:
  // Adds what a tensor has of a weight. `dtype` is that of the weight in the run; the elements
  // start at `first_element` of the flattened `from`.
  void add(const Weight& weight,
           const MappedWeight& part,
           at::ScalarType dtype,
           std::shared_ptr<const TensorSource> from,
           int64_t first_element);

  // Returns the sources by the names of state entries. Those of slices need all slices.
  const std::map<std::string, std::shared_ptr<const TensorSource>>& by_entry() const {
    return by_entry_;
  }

 private:
  class Stack;

  std::map<std::string, std::shared_ptr<const TensorSource>> by_entry_;
  std::map<std::string, std::shared_ptr<Stack>> stacks_;  // those made of slices
};

// The source of one parameter, which need not be stored in the run: a parametrization computes it.
class ParameterSource {
 public:
  // `dtype` is that of the result of whole().
  ParameterSource(uint32_t parameter, at::ScalarType dtype)
      : parameter_(parameter), dtype_(dtype) {}

  // True if `weight` is the parameter.
  bool takes(const Weight& weight) const { return weight.parameter == parameter_; }
  // Adds what a tensor has of it, as WeightSources::add. Requires takes(weight).
  void add(const Weight& weight,
           const MappedWeight& part,
           std::shared_ptr<const TensorSource> from,
           int64_t first_element);
  // Reads the whole parameter. Undefined if nothing was added.
  at::Tensor whole() const;

 private:
  uint32_t parameter_;
  at::ScalarType dtype_;
  WeightSources sources_;
};

}  // namespace tenon
