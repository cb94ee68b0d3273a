// SPDX-License-Identifier: Apache-2.0
//
// The weights of a checkpoint with effective parameters in place of the real ones: adapters are
// merged into their bases, quantized weights are dequantized.
// Invariant: at most the tensors of one parameter are in memory at a time.
// Threads: one at a time.
#pragma once

#include "host/model/graph.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/weights/layout_files.hpp"
#include "host/train/weights/layout_map.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class MergedWeights final : public WeightReader {
 public:
  // `weights` are those of a layout, or of own_layout_map() without reals. `convert` is applied to
  // stored weights. `base` describes calls on the CPU. All but `convert` are borrowed.
  // Errors  as SavedWeights
  MergedWeights(const StateTree& state,
                const std::string& address,
                const ModelGraph& graph,
                const std::vector<Weight>& weights,
                std::optional<at::ScalarType> dtype,
                const WeightConversion& convert,
                const ExecBase& base);

  at::ScalarType dtype(size_t w) const override;
  // Errors  those of the parametrization's plugin
  at::Tensor read(size_t w) const override;

 private:
  struct Made {
    const ModelParametrization* from = nullptr;
    SavedWeights reals;  // in the order of the parametrization
    SavedWeights buffers;
    at::ScalarType dtype;  // of the effective parameter
  };

  at::Tensor effective(const Made& made) const;

  std::optional<at::ScalarType> dtype_;
  ExecBase base_;
  std::vector<size_t> plain_of_;  // by weight: index in `plain_`, if it is not effective
  std::optional<SavedWeights> plain_;
  std::map<size_t, Made> made_;  // by weight
};

}  // namespace tenon
