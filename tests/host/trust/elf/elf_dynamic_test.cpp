// SPDX-License-Identifier: Apache-2.0
#include "host/trust/elf/elf_dynamic.hpp"

#include <algorithm>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("the dynamic segment tells what a plugin exports and needs", "[plugin]") {
  ZooFolder zoo;
  const auto dynamic = read_elf_dynamic(zoo.add("good_c"));
  REQUIRE(dynamic);
  CHECK(dynamic->exported == std::vector<std::string>{"tenon_plugin_entry"});
  CHECK(dynamic->unique.empty());
  CHECK(std::ranges::find(dynamic->needed, "libc.so.6") != dynamic->needed.end());
  CHECK(dynamic->library_path.empty());
  CHECK(std::ranges::any_of(dynamic->versions, [](const std::string& version) {
    return version.starts_with("GLIBC_2.");
  }));
  CHECK_FALSE(dynamic->has_text_relocations);
  CHECK_FALSE(dynamic->has_executable_stack);
  CHECK_FALSE(dynamic->has_static_tls);
}

TEST_CASE("unique symbols are listed with either hash table", "[plugin]") {
  ZooFolder zoo;
  for (const char* const name : {"shares_a", "shares_b"}) {
    INFO(name);
    const auto dynamic = read_elf_dynamic(zoo.add(name));
    REQUIRE(dynamic);
    CHECK(dynamic->unique.size() == 2);
    CHECK(dynamic->exported.size() == 3);
  }
}

TEST_CASE("a library path and a renamed library are read", "[plugin]") {
  ZooFolder zoo;
  const auto dynamic = read_elf_dynamic(zoo.add("brings_torch"));
  REQUIRE(dynamic);
  CHECK_THAT(dynamic->library_path, contains_text("second_torch"));
  CHECK(std::ranges::find(dynamic->needed, "libc10-0a1b2c3d.so") != dynamic->needed.end());
}

TEST_CASE("a truncated library has no dynamic segment", "[plugin]") {
  ZooFolder zoo;
  const std::string whole = read_text(zoo.add("good_c"));
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    const auto dynamic = read_elf_dynamic(zoo.write("cut.so", whole.substr(0, size)));
    CHECK((!dynamic || dynamic->exported.size() <= 1));
  }
  CHECK_FALSE(read_elf_dynamic(zoo.write("text.so", "not a library")));
}
