// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/layout_files.hpp"

#include "host/error/error.hpp"
#include "host/tensor/shape_text.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>

namespace tenon {

at::Tensor WeightReader::read_part(const MappedWeight& part) const {
  const at::Tensor weight = read(part.weight);
  return part.is_slice() ? weight.select(0, part.slice).contiguous() : weight;
}

SavedWeights::SavedWeights(const StateTree& state,
                           const std::string& address,
                           const std::vector<Weight>& weights,
                           std::optional<at::ScalarType> dtype)
    : dtype_(dtype) {
  using Source = std::shared_ptr<const TensorSource>;
  for (const Weight& weight : weights) {
    const StateEntry* const entry = state.find(weight.entry);
    const Source* const source = entry != nullptr ? std::get_if<Source>(&entry->value) : nullptr;
    if (source == nullptr) {
      throw Error("weights.mismatch",
                  address + " has no parameter '" + weight.name +
                      "', which the model of its recipe has; checkpoint.exclude omitted it when it "
                      "was saved");
    }
    if ((*source)->shape() != weight.shape) {
      throw Error("weights.mismatch",
                  address + " has '" + weight.name + "' as " + shape_text((*source)->shape()) +
                      ", but the model expects " + shape_text(weight.shape) +
                      "; use the plugins that saved it");
    }
    sources_.push_back(*source);
    entries_.push_back(weight.entry);
  }
}

at::Tensor SavedWeights::read(size_t w) const {
  const at::Tensor value = sources_[w]->whole();
  return (convert_ ? convert_(entries_[w], value) : value).to(dtype(w));
}

at::ScalarType SavedWeights::dtype(size_t w) const {
  const at::ScalarType kept = sources_[w]->dtype();
  return dtype_.has_value() && c10::isFloatingType(kept) ? *dtype_ : kept;
}

at::Tensor SavedWeights::read_part(const MappedWeight& part) const {
  if (!part.is_slice() || convert_) {
    return WeightReader::read_part(part);
  }
  const TensorSource& source = *sources_[part.weight];
  const std::vector<int64_t>& shape = source.shape();
  const at::Tensor slice =
      at::empty(at::IntArrayRef(shape).slice(1), at::TensorOptions().dtype(source.dtype()));
  source.read(part.slice * slice.numel(), slice);
  return slice.to(dtype(part.weight));
}

at::ScalarType SavedWeights::main_dtype() const {
  std::map<at::ScalarType, int64_t> numels;
  for (size_t w = 0; w < sources_.size(); ++w) {
    numels[dtype(w)] += sources_[w]->numel();
  }
  const auto most =
      std::ranges::max_element(numels, {}, [](const auto& entry) { return entry.second; });
  return most != numels.end() ? most->first : at::kFloat;
}

LayoutFiles::LayoutFiles(const LayoutMap& map, const WeightReader& saved) : saved_(saved) {
  for (const MappedTensor& tensor : map.tensors) {
    if (!tensor.is_alias) {
      tensors_.push_back({.name = tensor.name,
                          .dtype = saved.dtype(tensor.parts.front().weight),
                          .shape = tensor.shape});
      mapped_.push_back(&tensor);
    }
  }
  for (const LayoutFile& file : map.files) {
    texts_.emplace_back(file.name, file.text);
  }
}

at::Tensor LayoutFiles::read(size_t i) const {
  return joined(*mapped_[i], [this](const MappedWeight& part) { return saved_.read_part(part); });
}

}  // namespace tenon
