// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/kinds.hpp"

#include <set>
#include <sstream>
#include <string>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

using namespace tenon;

TEST_CASE("each kind has an interface of its name", "[plugin]") {
  CHECK(all_kinds().size() == 14);
  for (const KindEntry& entry : all_kinds()) {
    CHECK(entry.interface_id == "tenon." + std::string(entry.kind) + "/1");
    CHECK(find_kind(entry.kind) == &entry);
  }
  CHECK(find_kind("looss") == nullptr);
}

TEST_CASE("the SDK's build function knows the same kinds", "[plugin]") {
  const std::string text = read_text((source_dir() / "sdk/cmake/TenonAddPlugin.cmake").string());
  const std::size_t begin = text.find("set(_TENON_KINDS");
  REQUIRE(begin != std::string::npos);
  const std::size_t first = text.find_first_of(" \n", begin);
  std::istringstream names(text.substr(first, text.find(')', begin) - first));
  std::set<std::string> known;
  for (std::string name; names >> name;) {
    known.insert(name);
  }
  std::set<std::string> kinds;
  for (const KindEntry& entry : all_kinds()) {
    kinds.emplace(entry.kind);
  }
  CHECK(known == kinds);
}
