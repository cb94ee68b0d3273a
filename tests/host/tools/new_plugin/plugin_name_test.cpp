// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/plugin_name.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a new plugin has the name of a component type, and of nothing else", "[cli]") {
  for (const char* const name : {"focal", "a", "focal_loss2", "tests", "classes", "my_plugin"}) {
    CAPTURE(name);
    CHECK(plugin_name_problem(name).empty());
  }
  for (const char* const name : {"", "Focal", "2d", "_a", "a-b", "a.b", "a/b", "a b", "\xC3\xA4"}) {
    CAPTURE(name);
    CHECK_THAT(plugin_name_problem(name), contains_text("is no component type"));
  }
  for (const char* const name : {"class", "restrict", "co_await", "typeof", "int", "xor_eq"}) {
    CAPTURE(name);
    CHECK_THAT(plugin_name_problem(name), contains_text("is a keyword of C or C++"));
  }
  for (const char* const name : {"test", "all", "install", "package"}) {
    CAPTURE(name);
    CHECK_THAT(plugin_name_problem(name), contains_text("is a target that CMake reserves"));
  }
}

TEST_CASE("a plugin id is a reverse domain name in lower case", "[cli]") {
  for (const char* const id : {"com.example.focal", "a.b", "org.my-name.x_1"}) {
    CAPTURE(id);
    CHECK(is_plugin_id(id));
  }
  for (const char* const id : {"", ".", "focal", "a..b", ".a.b", "a.b.", "A.b", "a.b c", "a.b;c"}) {
    CAPTURE(id);
    CHECK_FALSE(is_plugin_id(id));
  }
}

TEST_CASE("a name has forms for classes and macros", "[cli]") {
  CHECK(class_name("my_plugin") == "MyPlugin");
  CHECK(class_name("focal2_x__y_") == "Focal2XY");
  CHECK(macro_name("my_plugin2") == "MY_PLUGIN2");
}

TEST_CASE("an identifier is found as a whole", "[cli]") {
  CHECK(has_identifier("struct Options {", "Options"));
  CHECK(has_identifier("Options", "Options"));
  CHECK(has_identifier("MyOptions Options", "Options"));
  CHECK_FALSE(has_identifier("struct MyOptions { OptionsList x; }", "Options"));
  CHECK_FALSE(has_identifier("", "Options"));
}

}  // namespace tenon
