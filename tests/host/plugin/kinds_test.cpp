// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/kinds.hpp"

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
  std::string list = text.substr(begin, text.find(')', begin) - begin);
  for (char& c : list) {
    c = c == '\n' ? ' ' : c;
  }
  list += " ";
  for (const KindEntry& entry : all_kinds()) {
    CAPTURE(entry.kind);
    CHECK(list.find(" " + std::string(entry.kind) + " ") != std::string::npos);
  }
}
