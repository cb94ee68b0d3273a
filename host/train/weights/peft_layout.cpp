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

// Returns the module of each parametrization, by the names of the layout "hf" if the model has it:
// "model.layers.0.self_attn.q_proj".
std::vector<std::string> modules_of(const ComponentInstance& model, const ModelGraph& graph) {
  std::map<uint32_t, std::string> names;
  if (WeightsLayoutProxy::of(model).has_value()) {
    const WeightPlaces places = places_in_layout(model, graph, "hf", TENON_F32);
    for (const PlacedTensor& tensor : places.tensors) {
      for (const PlacedWeight& part : tensor.parts) {
        const Weight& weight = places.weights[part.weight];
        if (weight.parametrization == kNoIndex || tensor.is_alias) {
          continue;
        }
        if (tensor.parts.size() != 1 || part.is_transposed) {
          refuse(
              formatted("'{}' is {} of the tensor '{}', for which PEFT has no separate adapter; "
                        "merge the adapter: --export hf PATH --merge",
                        weight.name,
                        part.is_transposed ? "the transpose" : "a part",
                        tensor.name));
        }
        names[weight.parametrization] = tensor.name;
      }
    }
  }
  std::vector<std::string> modules;
  for (uint32_t k = 0; k < graph.parametrizations.size(); ++k) {
    const auto found = names.find(k);
    std::string name = found != names.end()
                           ? found->second
                           : graph.parameters[graph.parametrizations[k].parameter].name;
    if (name.ends_with(kWeight)) {
      name.resize(name.size() - kWeight.size());
    }
    modules.push_back(std::move(name));
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
std::vector<std::string> targets_of(const std::vector<std::string>& modules,
                                    const ModelGraph& graph) {
  std::map<std::string, size_t> num_adapted;
  for (const std::string& module : modules) {
    ++num_adapted[last_component(module)];
  }
  std::map<std::string, size_t> num_there;
  for (const ModelParameter& parameter : graph.parameters) {
    if (parameter.name.ends_with(kWeight)) {
      ++num_there[last_component(parameter.name.substr(0, parameter.name.size() - kWeight.size()))];
    }
  }
  std::set<std::string> targets;
  for (const std::string& module : modules) {
    const std::string last = last_component(module);
    targets.insert(num_adapted[last] == num_there[last] ? last : module);
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

WeightPlaces peft_places(const ComponentInstance& model, const ModelGraph& graph) {
  if (graph.parametrizations.empty()) {
    throw Error("weights.no_layout",
                "the recipe has no parametrizations, and so no adapters for the layout \"peft\"; "
                "use --export hf");
  }
  const WeightPlaces own = own_places(graph);
  const std::vector<std::string> modules = modules_of(model, graph);
  WeightPlaces places;
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
      places.tensors.push_back({.name = kPrefix + modules[k] + "." + entry.name,
                                .shape = weight->shape,
                                .parts = {{.weight = places.weights.size()}}});
      places.weights.push_back(*weight);
    }
    for (const LayoutFile& file : description.files) {
      if (file.name == kAdapterConfig) {
        config.add(modules[k], ordered_json::parse(file.text));
      }
    }
  }
  places.files.push_back({.name = kAdapterConfig, .text = config.text(targets_of(modules, graph))});
  return places;
}

std::vector<std::string> peft_differences(const ComponentInstance& model,
                                          const ModelGraph& graph,
                                          const std::string& config) {
  if (!is_json_object(config)) {
    return {std::string(kAdapterConfig) + " is not a JSON object"};
  }
  ordered_json there = ordered_json::parse(config);
  if (const auto type = there.find("peft_type"); type == there.end() || *type != "LORA") {
    return {formatted("peft_type is {} in {}, expected \"LORA\"",
                      type == there.end() ? "missing" : type->dump(),
                      kAdapterConfig)};
  }
  if (const auto bias = there.find("bias"); bias != there.end() && *bias != "none") {
    return {formatted("bias is {} in {}, and trained biases are not supported; expected \"none\"",
                      bias->dump(),
                      kAdapterConfig)};
  }
  // Each changes what the tensors mean, or adds computations.
  for (const char* const key : {"lora_bias",
                                "use_qalora",
                                "use_bdlora",
                                "alora_invocation_tokens",
                                "layer_replication",
                                "kasa_config",
                                "monteclora_config",
                                "velora_config"}) {
    const auto value = there.find(key);
    if (value != there.end() && !value->is_null() && *value != false) {
      return {formatted("{} is {} in {}, which is not supported; expected null or false",
                        key,
                        value->dump(),
                        kAdapterConfig)};
    }
  }
  const std::vector<std::string> modules = modules_of(model, graph);
  std::vector<std::string> lines;
  for (size_t k = 0; k < graph.parametrizations.size(); ++k) {
    ordered_json one = there;
    if (const auto rank = from_pattern(there, "rank_pattern", modules[k])) {
      one["r"] = *rank;
    }
    if (const auto alpha = from_pattern(there, "alpha_pattern", modules[k])) {
      one["lora_alpha"] = *alpha;
    }
    for (const LayoutDifference& difference :
         layout_of(graph.parametrizations[k]).compare(kLayout, one.dump())) {
      lines.push_back(formatted("{} of '{}' is {} in the recipe, and {} in {}",
                                difference.option,
                                modules[k],
                                difference.here,
                                difference.there,
                                kAdapterConfig));
    }
  }
  return lines;
}

}  // namespace tenon
