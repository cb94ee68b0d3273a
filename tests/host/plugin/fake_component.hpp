// SPDX-License-Identifier: Apache-2.0
//
// A component that lives in the test itself: a table of functions, and the descriptor and plugin
// around it that a registry would have made.
#pragma once

#include "host/plugin/instance.hpp"

#include <string>

namespace tenon {

class FakeComponent {
 public:
  // `table` must live as long as this object.
  FakeComponent(std::string kind, const char* interface_id, const void* table);
  FakeComponent(const FakeComponent&) = delete;
  FakeComponent& operator=(const FakeComponent&) = delete;
  ~FakeComponent() = default;

  // To be changed before an instance is made. `create` gives this object as `self`.
  tenon_component descriptor;

  // The component's name is `KIND "fake" (plugin org.tenon.fake 1.2.3, fake.so)`.
  ComponentInstance make(const CreateRequest& request = {}) const;
  const LoadedComponent& loaded() const { return plugin_.components.front(); }

  int num_created = 0;
  int num_destroyed = 0;
  tenon_status* create_status = nullptr;  // what the next create returns

 private:
  static tenon_status* create(const tenon_host* host,
                              const tenon_create_args* args,
                              void** out_self);
  static void destroy(void* self);

  LoadedPlugin plugin_;
};

// What making a Proxy of `fake` fails with, as "[id] message"; "" where it does not.
template <class Proxy>
std::string proxy_error(const FakeComponent& fake) {
  try {
    Proxy proxy(fake.make());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

// What every message about a FakeComponent of `kind` begins with.
inline std::string fake_name(const std::string& kind) {
  return kind + " \"fake\" (plugin org.tenon.fake 1.2.3, build/fake.so)";
}

// The message that names a function which a table lacks.
inline std::string missing_function(const std::string& kind, const std::string& function) {
  return "[plugin.missing_interface] " + fake_name(kind) + " offers tenon." + kind +
         "/1 without its function \"" + function + "\"; set it in the registered table";
}

}  // namespace tenon
