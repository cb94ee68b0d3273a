// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/vet_components.hpp"

#include <tenon/dataset.h>
#include <tenon/model.h>

#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/instance.hpp"
#include "host/plugin/interface_table.hpp"
#include "host/plugin/loss_proxy.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/plugin/metric_proxy.hpp"
#include "host/plugin/optimizer_proxy.hpp"
#include "host/plugin/sparse_optimizer_proxy.hpp"
#include "host/plugin/tokenizer_check.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace tenon {
namespace {

// A function of a builder that accepts everything: graphs are checked when a run uses the model.
template <class Spec>
tenon_status* count_spec(tenon_model_builder* builder, const Spec* /*spec*/, uint32_t* out_index) {
  *out_index = (*static_cast<uint32_t*>(builder->impl))++;
  return nullptr;
}

void describe_model(const ComponentInstance& model) {
  uint32_t count = 0;
  tenon_model_builder builder{.struct_size = sizeof(tenon_model_builder),
                              .impl = &count,
                              .add_value = count_spec<tenon_value_spec>,
                              .add_parameter = count_spec<tenon_parameter_spec>,
                              .add_buffer = count_spec<tenon_buffer_spec>,
                              .add_block = count_spec<tenon_block_spec>};
  const auto* const table = table_of<tenon_model>(model, TENON_MODEL_ID);
  TENON_REQUIRE(tenon_model, table, describe, TENON_MODEL_ID, model.identity());
  model.call("describe", [&] { return table->describe(model.self(), &builder); });
}

void describe_dataset(const ComponentInstance& dataset) {
  const auto* const table = table_of<tenon_dataset>(dataset, TENON_DATASET_ID);
  TENON_REQUIRE(tenon_dataset, table, describe, TENON_DATASET_ID, dataset.identity());
  filled_by<tenon_dataset_info>(dataset, "describe", [&](tenon_dataset_info* out) {
    return table->describe(dataset.self(), out);
  });
}

}  // namespace

const tenon_mesh& lone_mesh() {
  static const tenon_mesh mesh = [] {
    tenon_mesh made{};
    made.struct_size = sizeof(made);
    made.world_size = 1;
    std::fill(std::begin(made.size), std::end(made.size), 1U);
    return made;
  }();
  return mesh;
}

std::optional<std::string> default_options(const LoadedComponent& component) {
  const auto schema = nlohmann::json::parse(component.options_schema);
  nlohmann::json options = nlohmann::json::object();
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (const auto& [name, property] : properties->items()) {
      if (!property.is_object() || !property.contains("default")) {
        return std::nullopt;
      }
      options[name] = property["default"];
    }
  }
  return options.dump();
}

// Most proxies describe their instance when they are made. Kinds without `describe` do nothing.
void describe_instance(ComponentInstance instance) {
  const std::string kind = instance.kind();
  if (kind == "model") {
    describe_model(instance);
  } else if (kind == "dataset") {
    describe_dataset(instance);
  } else if (kind == "loss") {
    LossProxy{std::move(instance)};
  } else if (kind == "metric") {
    MetricProxy{std::move(instance)};
  } else if (kind == "hook") {
    HookProxy{std::move(instance)};
  } else if (kind == "optimizer") {
    OptimizerProxy{std::move(instance)};
  } else if (kind == "sparse_optimizer") {
    SparseOptimizerProxy{std::move(instance)};
  } else if (kind == "lr_scheduler") {
    LrSchedulerProxy{std::move(instance)};
  } else if (kind == "tokenizer") {
    static_cast<void>(describe_tokenizer(instance));
  }
}

void vet_components(const LoadedPlugin& plugin,
                    const std::function<void(std::string_view call)>& before_call) {
  for (const LoadedComponent& component : plugin.components) {
    const std::optional<std::string> options = default_options(component);
    if (!options.has_value()) {
      continue;
    }
    const std::string of = " of " + component.kind + " \"" + component.type + "\"";
    try {
      before_call("create" + of);
      ComponentInstance instance = ComponentInstance::create(
          component, {.options_json = *options, .place = "/vetting", .mesh = &lone_mesh()});
      before_call("describe or destroy" + of);
      describe_instance(std::move(instance));
    } catch (const Error&) {  // a run that uses the component reports it
    }
  }
  before_call("");
}

}  // namespace tenon
