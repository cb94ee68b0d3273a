// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_host.hpp"

#include <tenon/tenon.h>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("a plugin sees a host of its own", "[plugin]") {
  const PluginHost one({"org.tenon.one", "1.0.0", "one.so"}, zoo_services());
  const PluginHost two({"org.tenon.two", "1.0.0", "two.so"}, zoo_services());
  CHECK(one.abi()->struct_size == sizeof(tenon_host));
  CHECK(one.abi()->abi_major == TENON_ABI_MAJOR);
  CHECK(one.abi()->abi_minor == TENON_ABI_MINOR);
  CHECK(std::string(one.abi()->version).size() >= 5);
  CHECK(plugin_of(one.abi()).id == "org.tenon.one");
  CHECK(plugin_of(two.abi()).id == "org.tenon.two");
}

TEST_CASE("services are found by id, and unknown ids give null", "[plugin]") {
  const PluginHost host({"org.tenon.one", "1.0.0", "one.so"}, zoo_services());
  const auto get = [&](const char* id) { return host.abi()->get_interface(host.abi(), id); };
  for (const char* const id :
       {TENON_STATUS_ID, TENON_LOG_ID, TENON_MEMORY_ID, TENON_OPTIONS_ID, TENON_TENSOR_ID}) {
    CAPTURE(id);
    CHECK(get(id) != nullptr);
  }
  CHECK(get("tenon.log/2") == nullptr);
  CHECK(get("") == nullptr);
  CHECK(get(nullptr) == nullptr);
  CHECK(host.abi()->get_interface(nullptr, TENON_LOG_ID) == nullptr);
}
