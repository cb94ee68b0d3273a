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
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/recipe_parametrizations.hpp"
#include "host/train/pretrained/newest_checkpoint.hpp"
#include "host/train/pretrained/saved_evaluation_values.hpp"
#include "host/train/pretrained/saved_model.hpp"
#include "host/train/pretrained/tokenizer_files.hpp"
#include "host/train/resume/checkpoint_storage.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/weights/base_hash.hpp"
#include "host/train/weights/layout_files.hpp"
#include "host/train/weights/layout_map.hpp"
#include "host/train/weights/merged_weights.hpp"
#include "host/train/weights/peft_layout.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
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

// What weights are read with.
struct Surroundings {
  const StateTree& state;                         // the model of the checkpoint
  const std::string& address;                     // of the checkpoint
  const tenon_mesh& mesh;                         // of calls to parametrizations
  WeightConversion convert;                       // from values of training to those of evaluation
  std::function<void(LayoutMap& map)> add_files;  // to those of a layout
};

SavedWeights saved_weights(const std::vector<Weight>& weights,
                           const WeightsExport& request,
                           const Surroundings& around) {
  SavedWeights saved = from_checkpoint([&] {
    return SavedWeights(around.state, around.address, weights, wanted_dtype(request.dtype));
  });
  saved.convert_by(around.convert);
  return saved;
}

struct Written {
  size_t num_tensors = 0;
  size_t num_files = 1;
  uint64_t bytes = 0;
};

// The context of calls to parametrizations.
ExecBase exec_on_cpu(const tenon_mesh& mesh) {
  ExecBase exec;
  exec.mesh = &mesh;
  exec.tensors = tensor_service();
  exec.ops = op_service();
  return exec;
}

// Returns the weights of a checkpoint: effective ones if the request merges, else the stored ones.
std::unique_ptr<WeightReader> weights_of(const ModelGraph& graph,
                                         const std::vector<Weight>& weights,
                                         const WeightsExport& request,
                                         const Surroundings& around) {
  if (!request.merges) {
    return std::make_unique<SavedWeights>(saved_weights(weights, request, around));
  }
  return from_checkpoint([&] {
    return std::make_unique<MergedWeights>(around.state,
                                           around.address,
                                           graph,
                                           weights,
                                           wanted_dtype(request.dtype),
                                           around.convert,
                                           exec_on_cpu(around.mesh));
  });
}

Written write_torch(const ModelGraph& graph,
                    const WeightsExport& request,
                    const Surroundings& around) {
  const LayoutMap map = request.merges ? merged_layout_map(graph) : own_layout_map(graph);
  const auto weights = weights_of(graph, map.weights, request, around);
  const WeightReader& saved = *weights;
  std::vector<TorchTensor> tensors;
  for (const MappedTensor& tensor : map.tensors) {
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

Written write_layout(const ModelProxy& model,
                     const ModelGraph& graph,
                     const WeightsExport& request,
                     const Surroundings& around) {
  const at::ScalarType main_dtype =
      saved_weights(own_layout_map(graph).weights, request, around).main_dtype();
  LayoutMap map = layout_map_of(
      model.instance(),
      graph,
      request.format,
      static_cast<uint32_t>(c10::isFloatingType(main_dtype) ? main_dtype : at::kFloat));
  around.add_files(map);
  const auto saved = weights_of(graph, map.weights, request, around);
  const LayoutFiles files(map, *saved);
  const WrittenWeights result = write_weights_folder(
      request.to,
      files.tensors(),
      [&](size_t i) { return from_checkpoint([&] { return files.read(i); }); },
      files.texts(),
      request.file_bytes);
  return {
      .num_tensors = files.tensors().size(), .num_files = result.num_files, .bytes = result.bytes};
}

// Returns the hash of the bases of all adapters; nothing if a base is not stored as it is.
std::optional<uint64_t> hash_of_bases(const Surroundings& around, const ModelGraph& graph) {
  std::vector<Weight> bases;
  for (const Weight& weight : own_layout_map(graph).weights) {
    const uint32_t k = weight.parametrization;
    if (k != kNoIndex && graph.parametrizations[k].parameter == weight.parameter) {
      bases.push_back(weight);
    }
  }
  if (bases.size() != graph.parametrizations.size()) {
    return std::nullopt;
  }
  const SavedWeights saved(around.state, around.address, bases, std::nullopt);
  uint64_t hash = 0;
  for (size_t i = 0; i < bases.size(); ++i) {
    const at::Tensor value = saved.read(i);
    hash += base_hash_of(bases[i].name, TensorPiece(value.sizes().vec()), value);
  }
  return hash;
}

Written write_peft(const ModelProxy& model,
                   const ModelGraph& graph,
                   const WeightsExport& request,
                   const Surroundings& around) {
  LayoutMap map = peft_layout_map(model.instance(), graph);
  if (const auto hash = from_checkpoint([&] { return hash_of_bases(around, graph); })) {
    map.files.push_back(
        {.name = kAdapterBase,
         .text = formatted("{\n  \"base_hash\": \"{}\"\n}\n", base_hash_text(*hash))});
  }
  around.add_files(map);
  const SavedWeights saved = saved_weights(map.weights, request, around);
  const LayoutFiles files(map, saved);
  const WrittenWeights result = write_weights_folder(
      request.to,
      files.tensors(),
      [&](size_t i) { return from_checkpoint([&] { return files.read(i); }); },
      files.texts(),
      std::numeric_limits<uint64_t>::max(),
      "adapter_");
  return {
      .num_tensors = files.tensors().size(), .num_files = result.num_files, .bytes = result.bytes};
}

// Refuses exports in which adapters would get lost, and options without effect.
void check_adapters(const ModelGraph& graph, const WeightsExport& request) {
  if (request.merges && graph.parametrizations.empty()) {
    throw Error("usage.bad_option",
                "--merge has no effect: the recipe has no parametrizations; remove it");
  }
  if (request.format == "hf" && !request.merges && !graph.parametrizations.empty()) {
    throw Error("weights.has_adapter",
                formatted("the run has adapters of {} parameters, which a Hugging Face folder does "
                          "not hold; pass --merge to merge them, or use --export peft",
                          graph.parametrizations.size()));
  }
}

std::string export_checkpoint(const CheckpointReader& reader,
                              const Recipe& recipe,
                              PluginRegistry& registry,
                              Process& process,
                              const WeightsExport& request,
                              WhichParameters which) {
  const auto warning = missing_training_text(
      path_of(request), reader.address(), reader.index().metadata, CheckpointUse::kExport);
  if (warning.has_value()) {
    log_warning(*warning);
  }
  const Mesh mesh;
  const tenon_mesh mesh_view = mesh.view();
  ComponentFactory factory(registry, recipe, mesh_view);
  // Plugins build their modules in the default dtype.
  const auto settings = process.compute_settings();
  settings->use_default_dtype(precision_policy(recipe.train.precision, ComputesOn::kCpu).exact());
  ModelProxy model(factory.create(recipe.model.use, "model"));
  ModelGraph graph = describe_model(model);
  add_parametrizations(factory, recipe.model, graph);
  check_adapters(graph, request);
  const auto has_lookup = [](const ModelValue& value) { return value.lookup.has_value(); };
  if (std::ranges::any_of(graph.values, has_lookup)) {
    log_warning(
        "table rows are not exported; pass --export-tables to a run to write them at its end");
  }
  const SavedModel saved =
      from_checkpoint([&] { return saved_model(reader, reader.state(0, 1, nullptr), which); });
  std::optional<SavedEvaluationValues> values;  // the best are values of evaluation already
  if (!saved.best.has_value()) {
    values.emplace(reader, recipe, graph, factory);
  }
  const std::string address = reader.address();
  const Surroundings around{
      .state = saved.state,
      .address = address,
      .mesh = mesh_view,
      .convert = values.has_value() ? WeightConversion([&values](const std::string& entry,
                                                                 const at::Tensor& value) {
        return values->of(entry, value);
      })
                                    : WeightConversion(),
      .add_files = [&](LayoutMap& map) { add_tokenizer_files(recipe, factory, map); }};
  const Written written = request.format == "torch"  ? write_torch(graph, request, around)
                          : request.format == "peft" ? write_peft(model, graph, request, around)
                                                     : write_layout(model, graph, request, around);
  return formatted("exported {} tensors, {} bytes, to {}{}, from {}\n",
                   written.num_tensors,
                   written.bytes,
                   request.to,
                   written.num_files > 1 ? formatted(" in {} files", written.num_files) : "",
                   saved.best.has_value() ? saved.text : address);
}

}  // namespace

std::string export_weights(const RecipeReading& read_recipe,
                           PluginRegistry& registry,
                           Process& process,
                           const WeightsExport& request,
                           WhichParameters which) {
  return with_newest_checkpoint(path_of(request),
                                read_recipe,
                                registry,
                                [&](const CheckpointReader& reader, const Recipe& recipe) {
                                  return export_checkpoint(
                                      reader, recipe, registry, process, request, which);
                                });
}

}  // namespace tenon
