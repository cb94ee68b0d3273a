// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/made_component.hpp"

#include "host/chat/chat_service.hpp"
#include "host/error/status.hpp"
#include "host/json/place.hpp"
#include "host/json/problem.hpp"
#include "host/json/schema_check.hpp"
#include "host/json/schema_defaults.hpp"
#include "host/kernels/operators.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/plugin_scan.hpp"
#include "host/plugin/plugin_services.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/parallel_service.hpp"
#include "host/tensor/random_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <stdexcept>
#include <vector>

#include "tests/support/paths.hpp"

namespace tenon {

namespace {

ServiceTable services() {
  register_operators();
  ServiceTable table;
  table[TENON_STATUS_ID] = status_service();
  table[TENON_TENSOR_ID] = tensor_service();
  table[TENON_OP_ID] = op_service();
  table[TENON_RANDOM_ID] = random_service();
  table[TENON_PARALLEL_ID] = parallel_service();
  table[TENON_METRICS_ID] = metrics_service();
  table[TENON_CHAT_TEMPLATE_ID] = chat_template_service();
  add_plugin_services(table);
  return table;
}

const LoadedComponent& load_component(const std::string& kind, const std::string& type) {
  // Sparse optimizers share names with dense ones.
  std::filesystem::path file =
      plugin_dir() / ((kind == "sparse_optimizer" ? "sparse_" : "") + type + ".so");
  if (!std::filesystem::exists(file)) {
    file = test_plugin_dir() / (type + ".so");
  }
  const PluginInfo info = inspect_plugin(file.string());
  if (info.refusal) {
    throw *info.refusal;
  }
  for (const LoadedComponent& component : load_plugin(info, services()).components) {
    if (component.kind == kind && component.type == type) {
      return component;
    }
  }
  throw std::runtime_error(file.string() + " has no " + kind + " " + type);
}

std::string problem_of(const LoadedComponent& component, const nlohmann::json& options) {
  ProblemList problems;
  check_schema(options, nlohmann::json::parse(component.options_schema), "", PlaceMap(), problems);
  std::string text;
  for (const Problem& problem : problems.kept()) {
    text += problem.pointer + ": " + problem.what + "\n";
  }
  return text;
}

}  // namespace

ComponentInstance make_component(const std::string& kind,
                                 const std::string& type,
                                 const std::string& options,
                                 const std::map<std::string, const ComponentInstance*>& nested) {
  static const tenon_mesh kOneRank = [] {
    tenon_mesh mesh{};
    mesh.struct_size = sizeof mesh;
    mesh.world_size = 1;
    for (uint32_t& size : mesh.size) {
      size = 1;
    }
    return mesh;
  }();
  const LoadedComponent& component = load_component(kind, type);
  nlohmann::json values = nlohmann::json::parse(options);
  const std::string problem = problem_of(component, values);
  if (!problem.empty()) {
    throw std::runtime_error(problem);
  }
  PlaceMap places;
  apply_defaults(values, nlohmann::json::parse(component.options_schema), "", places);
  CreateRequest request;
  request.options_json = values.dump();
  request.place = "/" + kind;
  request.seed = 1;
  request.mesh = &kOneRank;
  request.nested = nested;
  return ComponentInstance::create(component, request);
}

std::string options_schema(const std::string& kind, const std::string& type) {
  return load_component(kind, type).options_schema;
}

std::string options_problem(const std::string& kind,
                            const std::string& type,
                            const std::string& options) {
  return problem_of(load_component(kind, type), nlohmann::json::parse(options));
}

tenon_exec make_exec(const ComponentInstance& instance) {
  tenon_exec exec{};
  exec.struct_size = sizeof exec;
  exec.host = instance.host();
  exec.device = {TENON_CPU, -1};
  exec.seed = 1;
  exec.step = 1;
  exec.mode = TENON_MODE_TRAIN;
  exec.compute_dtype = TENON_F32;
  exec.tensors = tensor_service();
  exec.ops = op_service();
  exec.sync = [](const tenon_exec*) -> tenon_status* { return nullptr; };
  exec.stop_requested = [](const tenon_exec*) -> uint32_t { return 0; };
  return exec;
}

}  // namespace tenon
