// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/layout_map.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tenon {
namespace {

enum class AddedReals { kOmit, kInclude };

std::vector<Weight> weights_of(const ModelGraph& graph, AddedReals added, Unstored unstored) {
  std::vector<uint32_t> of_parameter(graph.parameters.size(), kNoIndex);
  std::vector<uint32_t> of_buffer(graph.buffers.size(), kNoIndex);
  for (uint32_t k = 0; k < graph.parametrizations.size(); ++k) {
    const ModelParametrization& made = graph.parametrizations[k];
    of_parameter[made.parameter] = k;
    for (const uint32_t p : made.reals) {
      of_parameter[p] = k;
    }
    for (const uint32_t b : made.buffers) {
      of_buffer[b] = k;
    }
  }
  std::vector<Weight> weights;
  const auto entry = [](const char* part, const std::string& name) {
    return state_path(state_path(run_state::kParameters, part), name);
  };
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    const ModelParameter& parameter = graph.parameters[p];
    const uint32_t k = of_parameter[p];
    const bool is_effective = k != kNoIndex && graph.parametrizations[k].parameter == p;
    const bool is_stored = !is_effective || graph.parametrizations[k].has_base;
    const bool is_added = k != kNoIndex && !is_effective;
    if (parameter.same_as != kNoIndex || (is_added && added == AddedReals::kOmit) ||
        (!is_stored && unstored == Unstored::kOmit)) {
      continue;
    }
    weights.push_back({.name = parameter.name,
                       .shape = is_stored ? parameter.shape : graph.parametrizations[k].shape,
                       .entry = entry("values", parameter.name),
                       .parameter = p,
                       .parametrization = k,
                       .is_stored = is_stored});
  }
  for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
    const ModelBuffer& buffer = graph.buffers[b];
    if (buffer.kind == TENON_BUFFER_STATE && !(buffer.is_real && added == AddedReals::kOmit)) {
      weights.push_back({.name = buffer.name,
                         .shape = buffer.shape,
                         .entry = entry("buffers", buffer.name),
                         .buffer = b,
                         .parametrization = of_buffer[b]});
    }
  }
  return weights;
}

// Assembles the map of a layout from the entries of a model's plugin.
class LayoutReading {
 public:
  LayoutReading(const ComponentIdentity& model, const ModelGraph& graph, const std::string& layout)
      : model_(model), layout_(layout) {
    map_.weights = weights_of(graph, AddedReals::kOmit, Unstored::kInclude);
    for (size_t w = 0; w < map_.weights.size(); ++w) {
      weight_of_[map_.weights[w].name] = w;
    }
    for (const ModelParameter& parameter : graph.parameters) {
      if (parameter.same_as != kNoIndex) {
        weight_of_[parameter.name] = weight_of_.at(graph.parameters[parameter.same_as].name);
      }
    }
    num_tensors_.resize(map_.weights.size());
    slices_.resize(map_.weights.size());
  }

  LayoutMap read(LayoutDescription description) {
    for (const LayoutEntry& entry : description.tensors) {
      add(entry);
    }
    for (MappedTensor& tensor : map_.tensors) {
      resolve(tensor);
    }
    for (size_t w = 0; w < num_tensors_.size(); ++w) {
      if (!slices_[w].empty()) {
        check_slices(w);
      } else if (num_tensors_[w] != 1) {
        refuse(
            formatted("'{}' has {} in it",
                      map_.weights[w].name,
                      num_tensors_[w] == 0 ? "no place" : formatted("{} places", num_tensors_[w])));
      }
    }
    map_.files = std::move(description.files);
    return std::move(map_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error("weights.bad_layout",
                model_.describe() + ": the layout \"" + layout_ +
                    "\" is incomplete or inconsistent: " + why +
                    "; report this to the plugin's author");
  }

  void add(const LayoutEntry& entry) {
    const auto weight = weight_of_.find(entry.parameter);
    if (weight == weight_of_.end()) {
      refuse("'" + entry.name + "' is mapped to '" + entry.parameter +
             "', but the model has no such parameter");
    }
    const bool is_alias = (entry.flags & TENON_LAYOUT_ALIAS) != 0;
    const bool is_slice = (entry.flags & TENON_LAYOUT_SLICE) != 0;
    if (is_slice) {
      add_slice(entry, weight->second);
    } else {
      num_tensors_[weight->second] += is_alias ? 0 : 1;
    }
    const auto [at, is_new] = tensor_of_.try_emplace(entry.name, map_.tensors.size());
    if (is_new) {
      map_.tensors.push_back({.name = entry.name, .shape = {}, .parts = {}, .is_alias = is_alias});
    }
    MappedTensor& tensor = map_.tensors[at->second];
    if (!is_new && (is_alias || tensor.is_alias)) {
      refuse("'" + entry.name + "' is listed twice, and is another name of a tensor");
    }
    if (!is_new && (is_slice || tensor.parts.front().is_slice())) {
      refuse("'" + entry.name + "' is a slice of '" +
             map_.weights[tensor.parts.front().weight].name +
             "', and is listed twice; a slice is a tensor of its own");
    }
    tensor.parts.push_back({.weight = weight->second,
                            .first = entry.first,
                            .is_transposed = (entry.flags & TENON_LAYOUT_TRANSPOSED) != 0,
                            .slice = is_slice ? entry.index : -1});
  }

  // A slice of a weight, and its tensor.
  struct Slice {
    std::string tensor;
    uint32_t flags = 0;
  };

  void add_slice(const LayoutEntry& entry, size_t w) {
    const Weight& weight = map_.weights[w];
    const int64_t num_slices = weight.shape.empty() ? 0 : weight.shape.front();
    if (entry.index < 0 || entry.index >= num_slices) {
      refuse(formatted("'{}' is slice {} of '{}', which has {} slices along its first axis",
                       entry.name,
                       entry.index,
                       weight.name,
                       num_slices));
    }
    if (entry.first != 0 || (entry.flags & TENON_LAYOUT_ALIAS) != 0) {
      refuse("'" + entry.name + "' is a slice of '" + weight.name +
             "', and also another name or a range of rows");
    }
    const auto [at, is_new] =
        slices_[w].try_emplace(entry.index, Slice{.tensor = entry.name, .flags = entry.flags});
    if (!is_new) {
      refuse(formatted("slice {} of '{}' is given twice, by '{}' and by '{}'",
                       entry.index,
                       weight.name,
                       at->second.tensor,
                       entry.name));
    }
  }

  // Checks that the tensors have all slices of a weight, in the same form, and nothing else has it.
  void check_slices(size_t w) const {
    const Weight& weight = map_.weights[w];
    const std::map<int64_t, Slice>& slices = slices_[w];
    for (int64_t i = 0; i < weight.shape.front(); ++i) {
      if (!slices.contains(i)) {
        refuse(formatted("slice {} of '{}' is missing", i, weight.name));
      }
    }
    const Slice& first = slices.begin()->second;
    for (const auto& [index, slice] : slices) {
      if (slice.flags != first.flags) {
        refuse("the slices '" + first.tensor + "' and '" + slice.tensor + "' of '" + weight.name +
               "' have different flags");
      }
    }
    if (num_tensors_[w] != 0) {
      refuse("'" + weight.name + "' is in the files as a whole, and as slices");
    }
  }

  // Sets the shape of a tensor, and checks that its parts cover it exactly.
  void resolve(MappedTensor& tensor) {
    std::ranges::sort(tensor.parts, {}, &MappedWeight::first);
    int64_t rows = 0;
    for (const MappedWeight& part : tensor.parts) {
      const Weight& weight = map_.weights[part.weight];
      std::vector<int64_t> shape = shape_of_part(weight, part);
      if (part.is_transposed && shape.size() != 2) {
        refuse("'" + weight.name + "' is transposed, but " +
               (part.is_slice() ? "its slices are no matrices" : "is not a matrix"));
      }
      if (part.is_transposed) {
        std::swap(shape[0], shape[1]);
      }
      const bool is_only = tensor.parts.size() == 1;
      if (part.first != rows || (!is_only && shape.empty())) {
        refuse("the parameters in '" + tensor.name + "' leave gaps or overlap");
      }
      if (rows == 0) {
        tensor.shape = shape;
      } else if (!std::equal(shape.begin() + 1,
                             shape.end(),
                             tensor.shape.begin() + 1,
                             tensor.shape.end())) {
        refuse("the parameters in '" + tensor.name + "' have rows of different sizes");
      }
      rows += shape.empty() ? 1 : shape[0];
    }
    if (!tensor.shape.empty()) {
      tensor.shape[0] = rows;
    }
  }

  const ComponentIdentity& model_;
  const std::string& layout_;
  LayoutMap map_;
  std::map<std::string, size_t> weight_of_;  // by name, tied parameters included
  std::map<std::string, size_t> tensor_of_;
  std::vector<int> num_tensors_;                  // by weight, without slices
  std::vector<std::map<int64_t, Slice>> slices_;  // by weight
};

}  // namespace

namespace {

LayoutMap named_layout_map(const ModelGraph& graph, std::vector<Weight> weights) {
  LayoutMap map;
  map.weights = std::move(weights);
  std::map<std::string, size_t> weight_of;
  for (size_t w = 0; w < map.weights.size(); ++w) {
    const Weight& weight = map.weights[w];
    weight_of[weight.name] = w;
    map.tensors.push_back(
        {.name = weight.name, .shape = weight.shape, .parts = {{.weight = w}}, .is_alias = false});
  }
  for (const ModelParameter& parameter : graph.parameters) {
    if (parameter.same_as != kNoIndex &&
        weight_of.contains(graph.parameters[parameter.same_as].name)) {
      const size_t w = weight_of.at(graph.parameters[parameter.same_as].name);
      map.tensors.push_back({.name = parameter.name,
                             .shape = map.weights[w].shape,
                             .parts = {{.weight = w}},
                             .is_alias = true});
    }
  }
  return map;
}

}  // namespace

LayoutMap own_layout_map(const ModelGraph& graph, Unstored unstored) {
  return named_layout_map(graph, weights_of(graph, AddedReals::kInclude, unstored));
}

LayoutMap merged_layout_map(const ModelGraph& graph) {
  return named_layout_map(graph, weights_of(graph, AddedReals::kOmit, Unstored::kInclude));
}

LayoutMap layout_map_of(const ComponentInstance& model,
                        const ModelGraph& graph,
                        const std::string& layout,
                        uint32_t dtype) {
  const auto proxy = WeightsLayoutProxy::of(model);
  if (!proxy.has_value()) {
    throw Error("weights.no_layout",
                model.identity().describe() + " has no parameter names for the layout \"" + layout +
                    "\"; use --export torch, which uses the model's own names");
  }
  return LayoutReading(model.identity(), graph, layout).read(proxy->describe(layout, dtype));
}

std::vector<int64_t> shape_of_part(const Weight& weight, const MappedWeight& part) {
  return {weight.shape.begin() + (part.is_slice() ? 1 : 0), weight.shape.end()};
}

at::Tensor joined(const MappedTensor& tensor,
                  const std::function<at::Tensor(const MappedWeight& part)>& read) {
  const MappedWeight& first = tensor.parts.front();
  if (tensor.parts.size() == 1 && !first.is_transposed) {
    return read(first);
  }
  at::Tensor whole;
  for (const MappedWeight& part : tensor.parts) {
    const at::Tensor values = read(part);
    if (!whole.defined()) {
      whole = at::empty(tensor.shape, values.options());
    }
    const at::Tensor rows = part.is_transposed ? values.t() : values;
    whole.narrow(0, part.first, rows.size(0)).copy_(rows);
  }
  return whole;
}

}  // namespace tenon
