// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/function_roles.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {

TEST_CASE("the roles of functions are those of abi.json", "[plugin]") {
  std::ifstream in(source_dir() / "sdk/abi/abi.json");
  const nlohmann::json abi = nlohmann::json::parse(in);
  std::size_t num_found = 0;
  for (const nlohmann::json& table : abi["structs"]) {
    const std::string name = table["name"];
    const bool is_known = std::ranges::any_of(all_function_roles(),
                                              [&](const auto& one) { return one.table == name; });
    for (const nlohmann::json& field : table["fields"]) {
      if (!is_known || !field.contains("function")) {
        continue;
      }
      const std::string function = field["name"];
      INFO(name << "." << function);
      const auto one = std::ranges::find_if(all_function_roles(), [&](const FunctionRole& role) {
        return role.table == name && role.function == function;
      });
      REQUIRE(one != all_function_roles().end());
      ++num_found;
      const nlohmann::json& parameters = field["function"]["parameters"];
      CHECK(nlohmann::json("[" + field["function"]["threads"][0].get<std::string>() + "]") ==
            role_name(one->role));
      CHECK(one->has_exec == std::ranges::any_of(parameters, [](const nlohmann::json& parameter) {
              return parameter.get<std::string>().starts_with("const tenon_exec*");
            }));
    }
  }
  CHECK(num_found == all_function_roles().size());
}

TEST_CASE("a function without a role may be called at any time", "[plugin]") {
  CHECK(role_of("loss", "compute").role == Role::kStep);
  CHECK(role_of("metric", "compute").role == Role::kStep);
  CHECK(role_of("dataset", "read").role == Role::kWorker);
  CHECK(role_of("storage", "create").role == Role::kMain);
  CHECK(role_of("storage", "compare of the layout").role == Role::kAny);
}

}  // namespace tenon
