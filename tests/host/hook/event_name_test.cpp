// SPDX-License-Identifier: Apache-2.0
#include "host/hook/event_name.hpp"

#include <tenon/hook.h>

#include <nlohmann/json.hpp>

#include <cctype>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {

TEST_CASE("the name of an event is that of its constant", "[hook]") {
  const std::string prefix = "TENON_EVENT_";
  std::ifstream in(source_dir() / "sdk/abi/abi.json");
  const nlohmann::json abi = nlohmann::json::parse(in);
  uint32_t num_events = 0;
  for (const auto& [constant, number] : abi["constants"].items()) {
    if (!constant.starts_with(prefix)) {
      continue;
    }
    std::string name = constant.substr(prefix.size());
    for (char& c : name) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    INFO(constant);
    CHECK(event_name(number.get<uint32_t>()) == name);
    ++num_events;
  }
  CHECK(num_events == TENON_NUM_EVENTS);
  CHECK(std::string(event_name(TENON_NUM_EVENTS)).empty());
}

}  // namespace tenon
