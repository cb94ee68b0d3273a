// SPDX-License-Identifier: Apache-2.0
//
// Which tensors of files a model's parameters are, by the model's own names or by those of a layout
// that it knows. Nothing is read or written here.
// Invariants: each parameter that is not tied to another has one place; the parameters of a tensor
// cover it once.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/weights_layout_proxy.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

// A parameter, or a buffer that is saved.
struct Weight {
  std::string name;
  std::vector<int64_t> shape;
  std::string entry;              // of the state tree
  uint32_t parameter = kNoIndex;  // one of the two is there
  uint32_t buffer = kNoIndex;
};

struct PlacedWeight {
  size_t weight = 0;
  int64_t first = 0;  // row of the tensor
  bool is_transposed = false;
};

struct PlacedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<PlacedWeight> parts;  // in their order
  bool is_alias = false;            // another name of what one of the others is
};

struct WeightPlaces {
  std::vector<Weight> weights;
  std::vector<PlacedTensor> tensors;
  std::vector<LayoutFile> files;
};

// By the names that the model has; tied parameters are aliases.
WeightPlaces own_places(const ModelGraph& graph);

// `dtype` is that of most tensors.
// Errors  weights.no_layout: the model's plugin does not know layouts; weights.bad_layout: what it
//         says leaves a parameter out, or does not fit; PluginError
WeightPlaces places_in_layout(const ComponentInstance& model,
                              const ModelGraph& graph,
                              const std::string& layout,
                              uint32_t dtype);

// The tensor of a file from what `read` gives for each of its weights, all of one dtype.
at::Tensor joined(const PlacedTensor& tensor, const std::function<at::Tensor(size_t weight)>& read);

}  // namespace tenon
