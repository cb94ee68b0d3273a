// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/component_factory.hpp"

#include "host/error/assert.hpp"
#include "host/plugin/tokenizer_check.hpp"
#include "host/tensor/philox.hpp"

namespace tenon {

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
  return ComponentInstance::create(registry_.get(use.kind, name), request);
}

ComponentInstance ComponentFactory::create(const ComponentUse& use, std::string_view role) {
  ComponentInstance instance = make(use, mix_seeds(recipe_.seed, stream_of(role)));
  states_.add(std::string(role), instance);
  return instance;
}

}  // namespace tenon
