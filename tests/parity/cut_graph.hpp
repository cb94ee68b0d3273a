// SPDX-License-Identifier: Apache-2.0
//
// The parts of a model that one of several tensor ranks has, by the declarations of the plugin and
// without the host's division: the graph of a rank is that of a smaller model.
#pragma once

#include <tenon/draft/tensor.h>

#include "host/model/graph.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

struct TensorRank {
  int64_t rank = 0;
  int64_t size = 1;
};

struct CutRange {
  int64_t first = 0;
  int64_t size = 0;
};

// What a rank has of each part of a split, as indices along its axis.
inline std::vector<CutRange> cut_ranges(const ModelSplit& split, TensorRank of) {
  std::vector<CutRange> ranges;
  int64_t begin = 0;
  for (size_t i = 0; i < split.parts.size(); ++i) {
    const int64_t unit = split.parts[i] / split.units[i];
    const int64_t first = of.rank * split.units[i] / of.size;
    const int64_t num = std::max<int64_t>(1, split.units[i] / of.size);
    ranges.push_back({begin + first * unit, num * unit});
    begin += split.parts[i];
  }
  return ranges;
}

inline int64_t cut_width(const ModelSplit& split, TensorRank of) {
  int64_t width = 0;
  for (const CutRange& range : cut_ranges(split, of)) {
    width += range.size;
  }
  return width;
}

// The part of a rank; all of it without a split.
inline at::Tensor cut(const at::Tensor& whole,
                      const std::optional<ModelSplit>& split,
                      TensorRank of) {
  if (!split.has_value()) {
    return whole;
  }
  std::vector<at::Tensor> parts;
  for (const CutRange& range : cut_ranges(*split, of)) {
    parts.push_back(whole.narrow(split->axis, range.first, range.size));
  }
  return at::cat(parts, split->axis);
}

// Adds the part of a rank into its place of the whole.
inline void add_part(at::Tensor& whole,
                     const at::Tensor& part,
                     const ModelSplit& split,
                     TensorRank of) {
  int64_t at = 0;
  for (const CutRange& range : cut_ranges(split, of)) {
    whole.narrow(split.axis, range.first, range.size).add_(part.narrow(split.axis, at, range.size));
    at += range.size;
  }
}

// Whether a block that uses the parameter computes whole: then each rank has all of it.
inline bool is_used_whole(const ModelGraph& graph, uint32_t p) {
  return std::ranges::any_of(graph.blocks, [&](const ModelBlock& block) {
    return !block.has(TENON_BLOCK_DIVISIBLE) &&
           std::ranges::any_of(block.parameters, [&](uint32_t q) {
             return q == p || graph.parameters[q].same_as == p || graph.parameters[p].same_as == q;
           });
  });
}

// Removes the splits of parameters that are used whole.
inline void drop_unused_splits(ModelGraph& graph) {
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    if (is_used_whole(graph, p)) {
      graph.parameters[p].split.reset();
    }
  }
}

// Gives parameters, parametrizations and values the shapes of a rank.
inline void cut_graph(ModelGraph& graph, TensorRank of) {
  for (ModelParametrization& made : graph.parametrizations) {
    const std::optional<ModelSplit>& split = graph.parameters[made.parameter].split;
    if (split.has_value()) {
      made.part = Box{.start = std::vector<int64_t>(made.shape.size(), 0), .size = made.shape};
      made.part->size[split->axis] = cut_width(*split, of);
    }
  }
  for (ModelParameter& parameter : graph.parameters) {
    if (parameter.split.has_value()) {
      parameter.shape[parameter.split->axis] = cut_width(*parameter.split, of);
    }
  }
  for (ModelValue& value : graph.values) {
    if (value.split.has_value()) {
      (*value.axes)[value.split->axis].size = cut_width(*value.split, of);
    }
  }
}

}  // namespace tenon
