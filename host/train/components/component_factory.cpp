// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/component_factory.hpp"

#include "host/error/assert.hpp"
#include "host/plugin/tokenizer_check.hpp"
#include "host/tensor/philox.hpp"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace tenon {

namespace {

// Says where the path of a missing file started; "" if the recipe is in the current folder, or the
// message names no file below either folder.
std::string start_of_paths(const std::string& message, const std::string& recipe_file) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const fs::path current = fs::current_path(failure);
  const fs::path of_recipe = fs::absolute(recipe_file, failure).lexically_normal().parent_path();
  const auto has = [&message](const fs::path& folder) {
    return !folder.empty() && message.find(folder.string() + "/") != std::string::npos;
  };
  if (failure || current == of_recipe) {
    return {};
  }
  if (has(of_recipe)) {
    return "; relative paths in a recipe start at its folder, " + of_recipe.string();
  }
  return has(current) ? "; relative paths in --set start at the current folder" : "";
}

}  // namespace

void ComponentFactory::explain_paths(const std::function<void()>& body) const {
  try {
    body();
  } catch (const PluginError& error) {
    const std::string start = error.code() == TENON_NOT_FOUND
                                  ? start_of_paths(error.message(), recipe_.file)
                                  : std::string();
    if (start.empty() || error.message().ends_with(start)) {  // said by a call inside
      throw;
    }
    throw PluginError(error.code(), error.id(), error.message() + start, error.status_id());
  }
}

ComponentFactory::ComponentFactory(PluginRegistry& registry,
                                   const Recipe& recipe,
                                   const tenon_mesh& mesh)
    : registry_(registry), recipe_(recipe), mesh_(mesh) {
  for_each_component(recipe, [this](const ComponentUse& use) { index(use); });
}

void ComponentFactory::index(const ComponentUse& use) {
  for (const ComponentUse::Nested& nested : use.nested) {
    if (nested.use.ref.empty()) {
      uses_.emplace(nested.use.pointer, &nested.use);
    }
    index(nested.use);
  }
}

const ComponentInstance& ComponentFactory::nested(const ComponentUse& use) {
  const std::string& pointer = use.ref.empty() ? use.pointer : use.ref;
  const auto known = shared_.find(pointer);
  if (known != shared_.end()) {
    return *known->second;
  }
  const auto target = uses_.find(pointer);
  TENON_ASSERT(target != uses_.end(), "references are resolved when the recipe is read");
  const uint64_t seed =
      mix_seeds(recipe_.seed, stream_of(target->second->kind + ":" + target->second->options));
  auto instance = std::make_unique<ComponentInstance>(make(*target->second, seed));
  if (instance->kind() == "tokenizer") {
    static_cast<void>(describe_tokenizer(*instance));
  }
  states_.add("nested" + pointer, *instance);
  return *shared_.emplace(pointer, std::move(instance)).first->second;
}

std::vector<const ComponentInstance*> ComponentFactory::nested_instances() const {
  std::vector<const ComponentInstance*> instances;
  for (const auto& [pointer, instance] : shared_) {
    instances.push_back(instance.get());
  }
  return instances;
}

ComponentInstance ComponentFactory::make(const ComponentUse& use, uint64_t seed) {
  CreateRequest request;
  request.options_json = use.options;
  request.place = use.pointer;
  request.seed = seed;
  request.mesh = &mesh_;
  for (const ComponentUse::Nested& inner : use.nested) {
    request.nested.emplace(inner.option, &nested(inner.use));
  }
  const std::string name =
      use.type.find('/') == std::string::npos ? use.plugin_id + "/" + use.type : use.type;
  std::optional<ComponentInstance> made;
  explain_paths(
      [&] { made.emplace(ComponentInstance::create(registry_.get(use.kind, name), request)); });
  return std::move(*made);
}

ComponentInstance ComponentFactory::create(const ComponentUse& use, std::string_view role) {
  ComponentInstance instance = make(use, mix_seeds(recipe_.seed, stream_of(role)));
  states_.add(std::string(role), instance);
  return instance;
}

}  // namespace tenon
