// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/instance.hpp"

#include <tenon/component.h>

#include "host/log/log.hpp"
#include "host/plugin/options_service.hpp"

#include <utility>

namespace tenon {
namespace {

void destroy(const ComponentIdentity& identity, void* self) noexcept {
  try {
    identity.watch("destroy", [&] { identity.component().descriptor->destroy(self); });
    if (const char* const misuse = std::exchange(service_misuse, nullptr)) {
      identity.fail_misuse("destroy", misuse);
    }
  } catch (const Error& error) {  // destroy cannot return an error
    log_error(error.what());
  }
}

}  // namespace

ComponentInstance ComponentInstance::create(const LoadedComponent& component,
                                            const CreateRequest& request) {
  auto identity = std::make_unique<const ComponentIdentity>(component, request.place);
  NamedComponents nested;
  for (const auto& [pointer, instance] : request.nested) {
    nested.emplace(pointer, instance->reference());
  }
  const Options options(request.options_json, nested, *identity);
  const tenon_create_args args = {.struct_size = sizeof(tenon_create_args),
                                  .options = options.abi(),
                                  .place = identity->place().c_str(),
                                  .seed = request.seed,
                                  .mesh = request.mesh};
  void* self = nullptr;
  identity->call("create", [&] {
    return component.descriptor->create(component.plugin->host.abi(), &args, &self);
  });
  return ComponentInstance(std::move(identity), self);
}

ComponentInstance::ComponentInstance(std::unique_ptr<const ComponentIdentity> identity, void* self)
    : identity_(identity.release(),
                [self](const ComponentIdentity* last) {
                  destroy(*last, self);
                  delete last;
                }),
      self_(self) {}

tenon_component_ref ComponentInstance::reference() const noexcept {
  return {.struct_size = sizeof(tenon_component_ref),
          .interface_id = identity_->component().interface_id,
          .table = identity_->component().table,
          .self = self_};
}

const void* ComponentInstance::extension(const char* id) const {
  const tenon_component& component = descriptor();
  if (!TENON_HAS(tenon_component, &component, get_extension)) {
    return nullptr;
  }
  return identity_->watch("get_extension", [&] { return component.get_extension(self_, id); });
}

}  // namespace tenon
