// SPDX-License-Identifier: Apache-2.0
//
// Converts the parameters of a checkpoint to the tensors and texts of a layout that the model's
// plugin describes. The caller writes them.
// Invariant: tensors are verified against the checkpoint's checksums; at most one is in memory at a
// time.
// Threads: any, one at a time.
#pragma once

#include "host/checkpoint/weights_folder.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/tensor/state/tensor_source.hpp"
#include "host/train/weights/layout_map.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Converts a weight by the name of its entry.
using WeightConversion =
    std::function<at::Tensor(const std::string& entry, const at::Tensor& value)>;

// Weights by index in the `weights` of a layout map, read on request.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  virtual at::ScalarType dtype(size_t w) const = 0;
  virtual at::Tensor read(size_t w) const = 0;
  // Reads all of a weight, or the slice that a tensor has of it.
  virtual at::Tensor read_part(const MappedWeight& part) const;
};

// Weights of a checkpoint, in their stored dtype or converted to `dtype`.
class SavedWeights final : public WeightReader {
 public:
  // All are borrowed. `state` is that of one rank, and `address` names it in messages.
  // Errors  weights.mismatch if the state lacks a parameter, or has it with another shape
  SavedWeights(const StateTree& state,
               const std::string& address,
               const std::vector<Weight>& weights,
               std::optional<at::ScalarType> dtype);

  at::ScalarType dtype(size_t w) const override;
  at::Tensor read(size_t w) const override;
  at::Tensor read_part(const MappedWeight& part) const override;
  // Sets a conversion of each weight in its stored dtype.
  void convert_by(WeightConversion convert) { convert_ = std::move(convert); }
  // Returns the dtype of most elements.
  at::ScalarType main_dtype() const;

 private:
  std::optional<at::ScalarType> dtype_;
  std::vector<std::shared_ptr<const TensorSource>> sources_;
  std::vector<std::string> entries_;
  WeightConversion convert_;
};

class LayoutFiles {
 public:
  // Both are borrowed.
  LayoutFiles(const LayoutMap& map, const WeightReader& saved);

  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  at::Tensor read(size_t i) const;
  // Returns the text files beside the tensors, as pairs of file name and content.
  const std::vector<std::pair<std::string, std::string>>& texts() const { return texts_; }

 private:
  const WeightReader& saved_;
  std::vector<WeightTensor> tensors_;
  std::vector<const MappedTensor*> mapped_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

}  // namespace tenon
