// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/weights_import.hpp"

#include "host/error/error.hpp"
#include "host/json/bounded_json.hpp"
#include "host/log/log.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/weights/converted_source.hpp"
#include "host/train/weights/hf_names.hpp"
#include "host/train/weights/weight_sources.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr char kConfig[] = "config.json";

// Differences of one kind; the first ones are shown.
class Differences {
 public:
  void add(const std::string& line) {
    if (++count_ <= kShown) {
      text_ += "\n  " + line;
    }
  }
  std::string text() const {
    return count_ > kShown ? text_ + formatted("\n  and {} more", count_ - kShown) : text_;
  }

 private:
  static constexpr size_t kShown = 8;

  size_t count_ = 0;
  std::string text_;
};

}  // namespace

WeightsImport::WeightsImport(const ComponentInstance& model,
                             const ModelGraph& graph,
                             const WeightsImportRequest& request)
    : layout_(request.format),
      folder_(request.from),
      map_(layout_map_of(model, graph, request.format, TENON_F32)) {
  std::set<std::string> there;
  std::set<std::string> here;
  for (const auto& [name, tensor] : folder_.tensors()) {
    if (!is_computed_in_hf(name, tensor.shape)) {
      there.insert(name);
    }
  }
  for (const MappedTensor& tensor : map_.tensors) {
    here.insert(tensor.name);
  }
  const HfPrefix prefix(there, here);
  Differences of_names;
  for (const std::string& name : there) {
    if (prefix.is_other_part(name)) {
      continue;
    }
    const auto [at, is_new] = there_of_.try_emplace(prefix.here(name), name);
    if (!is_new) {
      of_names.add("'" + at->second + "' and '" + name + "' would both be '" + at->first + "'");
    }
  }
  check(model, graph, of_names.text());
}

// Returns the lines of the differences between config.json and the model.
std::string WeightsImport::config_differences(const ComponentInstance& model) const {
  Differences of_config;
  const auto config = folder_.text(kConfig);
  if (config.has_value()) {
    if (!is_json_object(*config)) {
      throw Error("weights.bad_folder", folder_.path() + "/" + kConfig + " is not a JSON object");
    }
    if (const auto method = quantization_of(*config)) {
      of_config.add("its weights are quantized (quantization_config: " + *method + ")");
    }
    for (const LayoutDifference& difference :
         WeightsLayoutProxy::of(model)->compare(layout_, text_config(*config))) {
      of_config.add(difference.option + " is " + difference.here + " in the recipe, and " +
                    difference.there + " in " + kConfig);
    }
  } else {
    log_warning(folder_.path() + " has no " + kConfig +
                ": only names and shapes are compared with the model");
  }
  return of_config.text();
}

void WeightsImport::check(const ComponentInstance& model,
                          const ModelGraph& graph,
                          const std::string& of_names) const {
  const std::string of_config = config_differences(model);
  Differences of_shapes;
  Differences missing;
  Differences unknown;
  std::set<std::string> known;
  for (const MappedTensor& tensor : map_.tensors) {
    known.insert(tensor.name);
    const WeightTensor* const found = find(tensor.name);
    if (found == nullptr) {
      if (!tensor.is_alias) {
        missing.add("'" + tensor.name + "' is missing");
      }
      continue;
    }
    if (found->shape != tensor.shape) {
      of_shapes.add("'" + tensor.name + "' is " + shape_text(found->shape) +
                    ", but the model expects " + shape_text(tensor.shape));
    }
    for (const MappedWeight& part : tensor.parts) {
      const Weight& weight = map_.weights[part.weight];
      const uint32_t dtype = weight.parameter != kNoIndex ? graph.parameters[weight.parameter].dtype
                                                          : graph.buffers[weight.buffer].dtype;
      const bool is_floating =
          !is_dtype(dtype) || c10::isFloatingType(static_cast<at::ScalarType>(dtype));
      if (c10::isFloatingType(found->dtype) != is_floating) {
        of_shapes.add("'" + tensor.name + "' has the dtype " + c10::toString(found->dtype));
      }
    }
  }
  for (const auto& [here, there] : there_of_) {
    if (!known.contains(here)) {
      unknown.add("'" + there + "' " + shape_text(folder_.tensors().at(there).shape) +
                  " is not a tensor of the model");
    }
  }
  const std::string text =
      of_config + of_names + of_shapes.text() + missing.text() + unknown.text();
  if (!text.empty()) {
    throw Error(
        "weights.mismatch",
        folder_.path() + " does not fit the model of the recipe:" + text +
            "\nchange /model/options of the recipe, pass another folder, or use \"load\" of "
            "the recipe, which selects, renames and resizes");
  }
}

const WeightTensor* WeightsImport::find(const std::string& name) const {
  const auto found = there_of_.find(name);
  return found == there_of_.end() ? nullptr : &folder_.tensors().at(found->second);
}

std::shared_ptr<const TensorSource> WeightsImport::source(const std::string& name) const {
  return folder_.source(there_of_.at(name));
}

void WeightsImport::load(ParameterStore& store) const {
  StateTree tree;
  WeightSources sources;
  size_t num_rounded = 0;
  for (const MappedTensor& tensor : map_.tensors) {
    if (tensor.is_alias) {
      continue;
    }
    const auto file = source(tensor.name);
    const int64_t row = tensor.shape.empty()
                            ? 0
                            : c10::multiply_integers(tensor.shape.begin() + 1, tensor.shape.end());
    for (const MappedWeight& part : tensor.parts) {
      const Weight& weight = map_.weights[part.weight];
      if (!weight.is_stored) {
        continue;  // unstored() reads it
      }
      const at::ScalarType dtype =
          weight.parameter != kNoIndex
              ? store.groups()[store.position(weight.parameter).group].dtype()
              : store.buffer(weight.buffer).scalar_type();
      const bool is_exact =
          file->dtype() == dtype || c10::elementSize(file->dtype()) < c10::elementSize(dtype);
      num_rounded += is_exact ? 0 : 1;
      sources.add(weight, part, dtype, file, part.first * row);
    }
  }
  for (const auto& [entry, source] : sources.by_entry()) {
    tree.put_source(entry, source);
  }
  for (const MappedTensor& alias : map_.tensors) {
    if (!alias.is_alias || find(alias.name) == nullptr) {
      continue;
    }
    // Compares both in the dtype of the store.
    const Weight& weight = map_.weights[alias.parts.front().weight];
    if (!weight.is_stored) {
      continue;
    }
    const auto kept = std::get<std::shared_ptr<const TensorSource>>(tree.find(weight.entry)->value);
    const ConvertedSource other(
        kept->dtype(), weight.shape, source(alias.name), 0, alias.parts.front().is_transposed);
    if (!at::equal(kept->whole(), other.whole())) {
      throw Error("weights.mismatch",
                  folder_.path() + ": '" + alias.name + "' has different values than '" +
                      weight.name +
                      "', but the model ties them; choose a model that does not tie them");
    }
  }
  if (num_rounded > 0) {
    log_warning(formatted("{} tensors of {} are rounded to the parameter dtype of the run",
                          num_rounded,
                          folder_.path()));
  }
  store.load(tree, run_state::kParameters);
  store.publish();
}

at::Tensor WeightsImport::unstored(const ParameterStore& store, uint32_t parametrization) const {
  const ModelParametrization& made = store.graph().parametrizations[parametrization];
  ParameterSource from(made.parameter, store.stored_dtype(made.dtype));
  for (const MappedTensor& tensor : map_.tensors) {
    const int64_t row = tensor.shape.empty()
                            ? 0
                            : c10::multiply_integers(tensor.shape.begin() + 1, tensor.shape.end());
    for (const MappedWeight& part : tensor.parts) {
      const Weight& weight = map_.weights[part.weight];
      if (!tensor.is_alias && from.takes(weight)) {
        from.add(weight, part, source(tensor.name), part.first * row);
      }
    }
  }
  return from.whole();
}

}  // namespace tenon
