// SPDX-License-Identifier: Apache-2.0
#include "tests/host/plugin/fake_component.hpp"

#include <utility>

#include "tests/host/plugin/zoo_folder.hpp"

namespace tenon {
namespace {

// What `create` is to give as self: it is told nothing else of whom it works for.
FakeComponent* current = nullptr;

}  // namespace

FakeComponent::FakeComponent(std::string kind, const char* interface_id, const void* table)
    : descriptor{}, plugin_({"org.tenon.fake", "1.2.3", "build/fake.so"}, zoo_services()) {
  plugin_.components.push_back({.plugin = &plugin_,
                                .descriptor = &descriptor,
                                .kind = std::move(kind),
                                .type = "fake",
                                .interface_id = interface_id,
                                .table = table,
                                .summary = "",
                                .options_schema = "{}"});
  descriptor.struct_size = sizeof(descriptor);
  descriptor.kind = plugin_.components.front().kind.c_str();
  descriptor.type = "fake";
  descriptor.interface_id = interface_id;
  descriptor.table = table;
  descriptor.options_schema = "{}";
  descriptor.create = create;
  descriptor.destroy = destroy;
}

ComponentInstance FakeComponent::make(const CreateRequest& request) const {
  current = const_cast<FakeComponent*>(this);
  return ComponentInstance::create(loaded(), request);
}

tenon_status* FakeComponent::create(const tenon_host*, const tenon_create_args*, void** out_self) {
  if (current->create_status != nullptr) {
    return std::exchange(current->create_status, nullptr);
  }
  ++current->num_created;
  *out_self = current;
  return nullptr;
}

void FakeComponent::destroy(void* self) {
  ++static_cast<FakeComponent*>(self)->num_destroyed;
}

}  // namespace tenon
