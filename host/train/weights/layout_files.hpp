// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a checkpoint as the tensors and texts of a layout that the model knows. Where
// they go is the caller's.
// Invariant: what is read is verified against the checkpoint's checksums; one tensor at a time is
// in memory.
// Threads: any, one at a time.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/weights_folder.hpp"
#include "host/tensor/state/tensor_source.hpp"
#include "host/train/weights/weight_places.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Read when they are asked for, in the type that they have, or in another one.
class SavedWeights {
 public:
  // Both are borrowed.
  // Errors  weights.mismatch if the checkpoint has no such parameter, or in another shape
  SavedWeights(const CheckpointReader& reader,
               const std::vector<Weight>& weights,
               std::optional<at::ScalarType> dtype);

  at::ScalarType dtype(size_t w) const;
  at::Tensor read(size_t w) const { return sources_[w]->whole().to(dtype(w)); }
  // That of most elements.
  at::ScalarType main_dtype() const;

 private:
  std::optional<at::ScalarType> dtype_;
  std::vector<std::shared_ptr<const TensorSource>> sources_;
};

class LayoutFiles {
 public:
  // Both are borrowed.
  LayoutFiles(const WeightPlaces& places, const SavedWeights& saved);

  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  at::Tensor read(size_t i) const;
  // By name, as they stand beside the tensors.
  const std::vector<std::pair<std::string, std::string>>& texts() const { return texts_; }

 private:
  const SavedWeights& saved_;
  std::vector<WeightTensor> tensors_;
  std::vector<const PlacedTensor*> placed_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

}  // namespace tenon
