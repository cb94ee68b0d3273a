// SPDX-License-Identifier: Apache-2.0
//
// Maps a model's parameters to tensors of files, by the model's own names or by the names of a
// layout that its plugin describes. Reads and writes no files.
// Invariants: each parameter that is not tied to another is in exactly one tensor, or each of its
// slices is; the parameters of a tensor cover it without gaps or overlap.
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

// A parameter or a saved buffer.
struct Weight {
  std::string name;
  std::vector<int64_t> shape;
  std::string entry;              // name in the state tree
  uint32_t parameter = kNoIndex;  // exactly one of the two is set
  uint32_t buffer = kNoIndex;
  // Its parametrization, if it is a real parameter or buffer, or an effective parameter.
  uint32_t parametrization = kNoIndex;
  bool is_stored = true;  // false for an effective parameter without base
};

struct MappedWeight {
  size_t weight = 0;
  int64_t first = 0;  // first row in the tensor
  bool is_transposed = false;
  int64_t slice = -1;  // the slice of the weight along its first axis; -1: all of the weight

  bool is_slice() const { return slice >= 0; }
};

struct MappedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<MappedWeight> parts;  // by first row
  bool is_alias = false;            // another name of another tensor
};

// Which weights each tensor of a layout has, and the layout's text files.
struct LayoutMap {
  std::vector<Weight> weights;
  std::vector<MappedTensor> tensors;
  std::vector<LayoutFile> files;
};

// Effective parameters that are computed from other parameters only, and not stored.
enum class Unstored { kOmit, kInclude };

// Returns the map under the model's own names. Tied parameters are aliases.
LayoutMap own_layout_map(const ModelGraph& graph, Unstored unstored = Unstored::kOmit);

// Returns the map under the model's own names with effective parameters, and without the parameters
// and buffers that parametrizations add.
LayoutMap merged_layout_map(const ModelGraph& graph);

// Returns the map of a layout of the model's plugin, which has effective parameters, and none of
// the parameters and buffers that parametrizations add. `dtype` is the dtype of most tensors.
// Errors  weights.no_layout if the model's plugin has no layouts; weights.bad_layout if the layout
//         lacks a parameter or is inconsistent; PluginError
LayoutMap layout_map_of(const ComponentInstance& model,
                        const ModelGraph& graph,
                        const std::string& layout,
                        uint32_t dtype);

// Returns the shape of what a tensor has of a weight, before it is transposed.
std::vector<int64_t> shape_of_part(const Weight& weight, const MappedWeight& part);

// Assembles a tensor of a file from its parts, as returned by `read`, all of one dtype.
// Shapes  read(part): shape_of_part
at::Tensor joined(const MappedTensor& tensor,
                  const std::function<at::Tensor(const MappedWeight& part)>& read);

}  // namespace tenon
