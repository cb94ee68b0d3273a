// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/peft_layout.hpp"

#include <tenon/draft/weights_layout.h>

#include "host/error/error.hpp"
#include "host/json/bounded_json.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/plugin/weights_layout_proxy.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>

namespace tenon {
namespace {

using nlohmann::ordered_json;

constexpr char kLayout[] = "peft";
constexpr char kPrefix[] = "base_model.model.";
constexpr std::string_view kWeight = ".weight";

[[noreturn]] void refuse(const std::string& why) {
  throw Error("weights.bad_layout", why);
}

// The module of a parametrization in PEFT.
struct Module {
  std::string name;            // "model.layers.0.self_attn.q_proj"
  bool is_embedding = false;   // an embedding's adapter has names and axes of its own
  bool is_transposed = false;  // files store the matrix transposed, as Conv1D of GPT-2 does
  bool is_tied = false;        // another module has the same matrix
};

// Modules of transformers that are embeddings.
bool is_embedding_name(const std::string& name) {
  static const std::set<std::string> names = {
      "embed_tokens", "wte", "wpe", "word_embeddings", "embed_in", "embeddings"};
  return names.contains(name.substr(name.rfind('.') + 1));
}

std::string without_suffix(std::string name) {
  if (name.ends_with(kWeight)) {
    name.resize(name.size() - kWeight.size());
  }
  return name;
}

// Returns the map of the layout "hf"; nothing if the model has no layouts.
std::optional<LayoutMap> hf_layout(const ComponentInstance& model, const ModelGraph& graph) {
  return WeightsLayoutProxy::of(model).has_value()
             ? std::optional(layout_map_of(model, graph, "hf", TENON_F32))
             : std::nullopt;
}

// Returns the module of each parametrization, by the names of the layout "hf" if the model has it.
std::vector<Module> modules_of(const std::optional<LayoutMap>& layout,
                               const ModelGraph& graph,
                               PeftUse use) {
  std::map<uint32_t, Module> found;
  if (layout.has_value()) {
    for (const MappedTensor& tensor : layout->tensors) {
      for (const MappedWeight& part : tensor.parts) {
        const Weight& weight = layout->weights[part.weight];
        if (weight.parametrization == kNoIndex) {
          continue;
        }
        if (tensor.is_alias) {
          found[weight.parametrization].is_tied = true;
          continue;
        }
        if (tensor.parts.size() != 1) {
          refuse(formatted(
              "'{}' is a part of the tensor '{}', for which PEFT has one adapter; {}",
              weight.name,
              tensor.name,
              use == PeftUse::kExport
                  ? "merge the adapter: --export hf PATH --merge"
                  : "merge the folder's adapter in PEFT (merge_and_unload), and load the merged "
                    "model"));
        }
        Module& module = found[weight.parametrization];
        module.name = without_suffix(tensor.name);
        module.is_transposed = part.is_transposed;
      }
    }
  }
  std::vector<Module> modules;
  for (uint32_t k = 0; k < graph.parametrizations.size(); ++k) {
    Module module = found[k];
    if (module.name.empty()) {
      module.name = without_suffix(graph.parameters[graph.parametrizations[k].parameter].name);
    }
    module.is_embedding = is_embedding_name(module.name);
    if (module.is_embedding && module.is_tied) {
      refuse(formatted(
          "'{}' is also the output head, and PEFT adapts only the embedding; {}",
          module.name,
          use == PeftUse::kExport
              ? "merge the adapter: --export hf PATH --merge"
              : "merge it into its base with merge_and_unload() of PEFT, and load the result"));
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

WeightsLayoutProxy layout_of(const ModelParametrization& made) {
  const auto proxy = WeightsLayoutProxy::of(made.proxy->instance());
  if (!proxy.has_value()) {
    throw Error("weights.no_layout",
                made.proxy->instance().identity().describe() +
                    " has no names for the layout \"peft\"; merge it: --export hf PATH --merge");
  }
  return *proxy;
}

std::string last_component(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

// Returns the modules in the shortest form that PEFT understands: the last component where all
// matrices of that component are adapted, else the whole path.
std::vector<std::string> targets_of(const std::vector<Module>& modules, const ModelGraph& graph) {
  std::map<std::string, size_t> num_adapted;
  for (const Module& module : modules) {
    ++num_adapted[last_component(module.name)];
  }
  std::map<std::string, size_t> num_there;
  for (const ModelParameter& parameter : graph.parameters) {
    if (parameter.name.ends_with(kWeight)) {
      ++num_there[last_component(parameter.name.substr(0, parameter.name.size() - kWeight.size()))];
    }
  }
  std::set<std::string> targets;
  for (const Module& module : modules) {
    const std::string last = last_component(module.name);
    targets.insert(num_adapted[last] == num_there[last] ? last : module.name);
  }
  return {targets.begin(), targets.end()};
}

// The adapter_config.json of all parametrizations, from those of each.
class JoinedConfig {
 public:
  void add(const std::string& module, const ordered_json& one) {
    if (config_.is_null()) {
      config_ = one;
      return;
    }
    for (const auto& [key, value] : one.items()) {
      if (config_.contains(key) && config_.at(key) == value) {
        continue;
      }
      if (key == "r") {
        ranks_[module] = value;
      } else if (key == "lora_alpha") {
        alphas_[module] = value;
      } else {
        refuse(
            formatted("the adapters of '{}' and of other modules differ in {}, and PEFT has one "
                      "value for all modules; merge them: --export hf PATH --merge",
                      module,
                      key));
      }
    }
  }

  void set_fan_in_fan_out() { config_["fan_in_fan_out"] = true; }

  std::string text(const std::vector<std::string>& targets) {
    config_["task_type"] = "CAUSAL_LM";
    config_["base_model_name_or_path"] = nullptr;
    config_["inference_mode"] = true;
    config_["target_modules"] = targets;
    config_["modules_to_save"] = nullptr;
    config_["rank_pattern"] = ranks_;
    config_["alpha_pattern"] = alphas_;
    return config_.dump(2) + "\n";
  }

 private:
  ordered_json config_;
  ordered_json ranks_ = ordered_json::object();
  ordered_json alphas_ = ordered_json::object();
};

// Returns the value of a pattern for a module, as PEFT finds it: the first key that is a regular
// expression of the end of the module's path.
std::optional<ordered_json> from_pattern(const ordered_json& config,
                                         const char* key,
                                         const std::string& module) {
  const auto patterns = config.find(key);
  if (patterns == config.end() || !patterns->is_object()) {
    return std::nullopt;
  }
  for (const auto& [pattern, value] : patterns->items()) {
    constexpr size_t kLongestPattern = 256;  // matching may take long, and recurses
    if (pattern.size() > kLongestPattern) {
      refuse(formatted(
          "{} has a pattern of {} characters (at most {})", key, pattern.size(), kLongestPattern));
    }
    try {
      if (std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"))) {
        return value;
      }
    } catch (const std::regex_error&) {
      refuse(formatted("{} has the pattern \"{}\", which is no regular expression", key, pattern));
    }
  }
  return std::nullopt;
}

}  // namespace

namespace {

// Adds the tensor of a PEFT folder for a real of an adapter, by its name in a separate module.
void add_real(const Module& module,
              const std::string& entry,
              const Weight& weight,
              LayoutMap& map) {
  std::string name = entry;
  MappedWeight part{.weight = map.weights.size()};
  std::vector<int64_t> shape = weight.shape;
  if (module.is_embedding) {
    // The update of an embedding [V, D] is (B A)^T, for A [R, V] and B [D, R].
    if (entry != "lora_A.weight" && entry != "lora_B.weight") {
      refuse(
          formatted("'{}': PEFT scales an embedding's columns, and not its rows; use \"lora\" or "
                    "\"rslora\" for it",
                    module.name));
    }
    name = entry == "lora_A.weight" ? "lora_embedding_B" : "lora_embedding_A";
    part.is_transposed = true;
    std::swap(shape[0], shape[1]);
  }
  map.tensors.push_back(
      {.name = kPrefix + module.name + "." + name, .shape = std::move(shape), .parts = {part}});
  map.weights.push_back(weight);
}

// Adds the tensors of a folder that are parameters of the model itself: modules_to_save, and the
// embedding layers that PEFT saves beside their adapters.
void add_saved_modules(const LayoutMap& layout,
                       const std::set<std::string>& there,
                       LayoutMap& map) {
  constexpr std::string_view kBase = ".base_layer.";
  for (const std::string& name : there) {
    if (!name.starts_with(kPrefix)) {
      continue;
    }
    std::string own = name.substr(std::string_view(kPrefix).size());
    if (const size_t at = own.find(kBase); at != std::string::npos) {
      own.erase(at, kBase.size() - 1);
    }
    const auto tensor = std::ranges::find(layout.tensors, own, &MappedTensor::name);
    if (tensor == layout.tensors.end() || tensor->is_alias) {
      continue;
    }
    MappedTensor mapped = *tensor;
    mapped.name = name;
    mapped.is_alias = false;
    for (MappedWeight& part : mapped.parts) {
      const Weight& weight = layout.weights[part.weight];
      if (!weight.is_stored) {
        refuse(formatted("'{}' has a quantized base, and the folder has other values of it",
                         weight.name));
      }
      const auto known = std::ranges::find(map.weights, weight.name, &Weight::name);
      part.weight = static_cast<size_t>(known - map.weights.begin());
      if (known == map.weights.end()) {
        map.weights.push_back(weight);
      }
    }
    map.tensors.push_back(std::move(mapped));
  }
}

// Initializations that leave the base as it is. The others change it by values that the folder does
// not have.
bool keeps_base(const ordered_json& init) {
  return init.is_null() || init.is_boolean() || init == "gaussian" || init == "eva" ||
         init == "orthogonal";
}

}  // namespace

LayoutMap peft_layout_map(const ComponentInstance& model,
                          const ModelGraph& graph,
                          PeftUse use,
                          const std::set<std::string>& there) {
  if (graph.parametrizations.empty()) {
    throw Error("weights.no_layout",
                "the recipe has no parametrizations, and so no adapters for the layout \"peft\"; "
                "use --export hf");
  }
  const LayoutMap own = own_layout_map(graph);
  const std::optional<LayoutMap> layout = hf_layout(model, graph);
  const std::vector<Module> modules = modules_of(layout, graph, use);
  LayoutMap map;
  JoinedConfig config;
  for (size_t k = 0; k < graph.parametrizations.size(); ++k) {
    const ModelParametrization& made = graph.parametrizations[k];
    const LayoutDescription description = layout_of(made).describe(kLayout, TENON_F32);
    const std::string& base = graph.parameters[made.parameter].name;
    for (const LayoutEntry& entry : description.tensors) {
      const auto weight = std::ranges::find(own.weights, base + entry.parameter, &Weight::name);
      if (weight == own.weights.end() || entry.flags != 0 || entry.first != 0) {
        refuse(formatted("{}: the layout \"peft\" maps '{}' to '{}', which is no real parameter",
                         made.proxy->instance().identity().describe(),
                         entry.name,
                         entry.parameter));
      }
      add_real(modules[k], entry.name, *weight, map);
    }
    for (const LayoutFile& file : description.files) {
      if (file.name == kAdapterConfig) {
        config.add(modules[k].name, ordered_json::parse(file.text));
      }
    }
  }
  if (std::ranges::any_of(modules, &Module::is_transposed)) {
    config.set_fan_in_fan_out();  // PEFT turns it off for other modules
  }
  map.files.push_back({.name = kAdapterConfig, .text = config.text(targets_of(modules, graph))});
  if (layout.has_value()) {
    add_saved_modules(*layout, there, map);
  }
  return map;
}

namespace {

// Returns the first key of an adapter_config.json that changes what the tensors mean or adds
// computations, for users; "" if there is none.
std::string unsupported_in(const ordered_json& there) {
  if (const auto type = there.find("peft_type"); type == there.end() || *type != "LORA") {
    return formatted("peft_type is {} in {}, expected \"LORA\"",
                     type == there.end() ? "missing" : type->dump(),
                     kAdapterConfig);
  }
  if (const auto bias = there.find("bias"); bias != there.end() && *bias != "none") {
    return formatted("bias is {} in {}, and trained biases are not supported; expected \"none\"",
                     bias->dump(),
                     kAdapterConfig);
  }
  if (const auto init = there.find("init_lora_weights");
      init != there.end() && !keeps_base(*init)) {
    return formatted(
        "init_lora_weights is {} in {}: PEFT changes the base when it loads this adapter; convert "
        "the adapter in PEFT, by save_pretrained(..., "
        "path_initial_model_for_weight_conversion=...)",
        init->dump(),
        kAdapterConfig);
  }
  // Each changes what the tensors mean, or adds computations.
  for (const char* const key : {"lora_bias",
                                "use_qalora",
                                "use_bdlora",
                                "alora_invocation_tokens",
                                "arrow_config",
                                "ensure_weight_tying",
                                "layer_replication",
                                "kasa_config",
                                "megatron_config",
                                "monteclora_config",
                                "target_parameters",
                                "trainable_token_indices",
                                "velora_config"}) {
    const auto value = there.find(key);
    if (value != there.end() && !value->is_null() && *value != false && !value->empty()) {
      return formatted("{} is {} in {}, which is not supported; expected null or false",
                       key,
                       value->dump(),
                       kAdapterConfig);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> peft_differences(const ComponentInstance& model,
                                          const ModelGraph& graph,
                                          const std::string& config) {
  if (!is_json_object(config)) {
    return {std::string(kAdapterConfig) + " is not a JSON object"};
  }
  const ordered_json there = ordered_json::parse(config);
  if (const std::string line = unsupported_in(there); !line.empty()) {
    return {line};
  }
  const std::vector<Module> modules = modules_of(hf_layout(model, graph), graph, PeftUse::kLoad);
  std::vector<std::string> lines;
  for (size_t k = 0; k < graph.parametrizations.size(); ++k) {
    ordered_json one = there;
    if (const auto rank = from_pattern(there, "rank_pattern", modules[k].name)) {
      one["r"] = *rank;
    }
    if (const auto alpha = from_pattern(there, "alpha_pattern", modules[k].name)) {
      one["lora_alpha"] = *alpha;
    }
    if (modules[k].is_transposed) {
      one.erase("fan_in_fan_out");  // PEFT turns it on for such modules
    }
    for (const LayoutDifference& difference :
         layout_of(graph.parametrizations[k]).compare(kLayout, one.dump())) {
      lines.push_back(formatted("{} of '{}' is {} in the recipe, and {} in {}",
                                difference.option,
                                modules[k].name,
                                difference.here,
                                difference.there,
                                kAdapterConfig));
    }
  }
  return lines;
}

}  // namespace tenon
