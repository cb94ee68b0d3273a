// SPDX-License-Identifier: Apache-2.0
//
// The sources of the weights of a model, collected from the tensors of files: a weight comes from
// rows of one tensor, or from one tensor for each of its slices.
// Threads: one at a time; the sources may be read by any, concurrently.
#pragma once

#include "host/tensor/state/tensor_source.hpp"
#include "host/train/weights/weight_places.hpp"

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
           const PlacedWeight& part,
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

}  // namespace tenon
