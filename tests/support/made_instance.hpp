// SPDX-License-Identifier: Apache-2.0
//
// An instance of a component that a test defines in place, as tables of functions, without a
// library.
#pragma once

#include <tenon/component.h>

#include "host/plugin/instance.hpp"

#include <memory>
#include <mutex>
#include <string>

namespace tenon {

// An instance of `kind` whose table is `table` and whose self is `self`; both must outlive it, as
// must the process-wide registration that this leaves behind.
inline ComponentInstance made_instance(const char* kind,
                                       const char* interface_id,
                                       const void* table,
                                       void* self,
                                       const void* (*extension)(void* self,
                                                                const char* id) = nullptr) {
  struct Made {
    tenon_component descriptor{};
    LoadedPlugin plugin{{"org.tenon.test", "0.0.1", "test.so"}, {}};
    LoadedComponent component;
  };
  static thread_local void* next_self = nullptr;
  next_self = self;
  auto* made = new Made;  // a plugin is never unloaded; neither is this
  made->descriptor.struct_size = sizeof(made->descriptor);
  made->descriptor.kind = kind;
  made->descriptor.type = "made";
  made->descriptor.interface_id = interface_id;
  made->descriptor.table = table;
  made->descriptor.summary = "";
  made->descriptor.options_schema = "{}";
  made->descriptor.create =
      [](const tenon_host*, const tenon_create_args*, void** out_self) -> tenon_status* {
    *out_self = next_self;
    return nullptr;
  };
  made->descriptor.destroy = [](void*) {};
  made->descriptor.get_extension = extension;
  made->component = {.plugin = &made->plugin,
                     .descriptor = &made->descriptor,
                     .kind = kind,
                     .type = "made",
                     .interface_id = interface_id,
                     .table = table,
                     .summary = "",
                     .options_schema = "{}"};
  static std::vector<std::unique_ptr<Made>> kept;  // reachable, so that leak checkers stay quiet
  static std::mutex mutex;                         // ranks of a test are threads
  {
    const std::lock_guard lock(mutex);
    kept.emplace_back(made);
  }
  return ComponentInstance::create(made->component, {});
}

}  // namespace tenon
