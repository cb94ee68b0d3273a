// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/weights_export.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/torch_file.hpp"
#include "host/checkpoint/weights_folder.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/model/graph.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/pretrained/newest_checkpoint.hpp"
#include "host/train/pretrained/saved_evaluation_values.hpp"
#include "host/train/pretrained/tokenizer_files.hpp"
#include "host/train/resume/checkpoint_storage.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/weights/layout_files.hpp"
#include "host/train/weights/weight_places.hpp"

#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tenon {
namespace {

const std::string& path_of(const WeightsExport& request) {
  return request.from.empty() ? request.run_dir : request.from;
}

std::optional<at::ScalarType> wanted_dtype(const std::string& name) {
  static const std::map<std::string, at::ScalarType> dtypes = {
      {"bf16", at::kBFloat16}, {"f16", at::kHalf}, {"f32", at::kFloat}, {"f64", at::kDouble}};
  return name.empty() ? std::nullopt : std::optional(dtypes.at(name));
}

SavedWeights saved_weights(const CheckpointReader& reader,
                           const std::vector<Weight>& weights,
                           const WeightsExport& request,
                           SavedEvaluationValues& values) {
  SavedWeights saved =
      from_checkpoint([&] { return SavedWeights(reader, weights, wanted_dtype(request.dtype)); });
  saved.convert_by([&values](const std::string& entry, const at::Tensor& value) {
    return values.of(entry, value);
  });
  return saved;
}

struct Written {
  size_t num_tensors = 0;
  size_t num_files = 1;
  uint64_t bytes = 0;
};

Written write_torch(const CheckpointReader& reader,
                    const ModelGraph& graph,
                    const WeightsExport& request,
                    SavedEvaluationValues& values) {
  const WeightPlaces places = own_places(graph);
  const SavedWeights saved = saved_weights(reader, places.weights, request, values);
  std::vector<TorchTensor> tensors;
  for (const PlacedTensor& tensor : places.tensors) {
    const size_t w = tensor.parts.front().weight;
    tensors.push_back(
        {.name = tensor.name, .dtype = saved.dtype(w), .shape = tensor.shape, .source = w});
  }
  Written written{.num_tensors = tensors.size()};
  written.bytes = write_torch_file(request.to, tensors, [&saved](size_t w) {
    return from_checkpoint([&] { return saved.read(w); });
  });
  return written;
}

Written write_layout(const CheckpointReader& reader,
                     const ModelProxy& model,
                     const ModelGraph& graph,
                     const WeightsExport& request,
                     SavedEvaluationValues& values,
                     const std::function<void(WeightPlaces& places)>& add_files) {
  const WeightPlaces own = own_places(graph);
  const SavedWeights saved = saved_weights(reader, own.weights, request, values);
  WeightPlaces places = places_in_layout(
      model.instance(), graph, request.format, static_cast<uint32_t>(saved.main_dtype()));
  add_files(places);
  const LayoutFiles files(places, saved);
  const WrittenWeights result = write_weights_folder(
      request.to,
      files.tensors(),
      [&](size_t i) { return from_checkpoint([&] { return files.read(i); }); },
      files.texts(),
      request.file_bytes);
  return {
      .num_tensors = files.tensors().size(), .num_files = result.num_files, .bytes = result.bytes};
}

std::string export_checkpoint(const CheckpointReader& reader,
                              const Recipe& recipe,
                              PluginRegistry& registry,
                              const WeightsExport& request) {
  const auto warning = missing_training_text(
      path_of(request), reader.address(), reader.index().metadata, CheckpointUse::kExport);
  if (warning.has_value()) {
    log_warning(*warning);
  }
  const Mesh mesh;
  const tenon_mesh mesh_view = mesh.view();
  ComponentFactory factory(registry, recipe, mesh_view);
  // Plugins build their modules in the default dtype.
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(
      precision_policy(recipe.train.precision, ComputesOn::kCpu).exact()));
  ModelProxy model(factory.create(recipe.model.use, "model"));
  const ModelGraph graph = describe_model(model);
  const auto has_lookup = [](const ModelValue& value) { return value.lookup.has_value(); };
  if (std::ranges::any_of(graph.values, has_lookup)) {
    log_warning(
        "table rows are not exported; pass --export-tables to a run to write them at its end");
  }
  SavedEvaluationValues values(reader, recipe, graph, factory);
  const auto add_files = [&](WeightPlaces& places) {
    add_tokenizer_files(recipe, factory, places);
  };
  const Written written = request.format == "torch"
                              ? write_torch(reader, graph, request, values)
                              : write_layout(reader, model, graph, request, values, add_files);
  return formatted("exported {} tensors, {} bytes, to {}{}, from {}\n",
                   written.num_tensors,
                   written.bytes,
                   request.to,
                   written.num_files > 1 ? formatted(" in {} files", written.num_files) : "",
                   reader.address());
}

}  // namespace

std::string export_weights(const RecipeReading& read_recipe,
                           PluginRegistry& registry,
                           const WeightsExport& request) {
  return with_newest_checkpoint(path_of(request),
                                read_recipe,
                                registry,
                                [&](const CheckpointReader& reader, const Recipe& recipe) {
                                  return export_checkpoint(reader, recipe, registry, request);
                                });
}

}  // namespace tenon
