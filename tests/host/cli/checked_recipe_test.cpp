// SPDX-License-Identifier: Apache-2.0
#include "host/cli/checked_recipe.hpp"

#include "host/error/error.hpp"

#include <string>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// A registry over two of the tests' plugins and a recipe that names nothing that is there but a
// loss: enough to see what is reported, and in what order.
class Checking {
 public:
  Checking() {
    zoo_.add("good_c");
    zoo_.add("crashes_in_entry");
  }

  // The report of checking a recipe with these "plugins", with the folder's names cut out.
  std::string report(const std::string& plugins) const {
    const std::string path =
        folder_
            .write("r.json",
                   "{\n\"plugins\": {\"need\": " + plugins +
                       "},\n"
                       "\"model\": {\"type\": \"absent\"},\n"
                       "\"data\": {\"batch_size\": 1, \"train\": {\"type\": \"absent\"}},\n"
                       "\"loss\": {\"type\": \"half_square\"},\n"
                       "\"optimizer\": {\"type\": \"absent\"},\n"
                       "\"train\": {\"steps\": 1},\n"
                       "\"sinks\": []\n}\n")
            .string();
    PluginRegistry registry(zoo_.setup());
    try {
      (void)check_recipe(read_recipe({.path = path, .compute_threads = 1}), registry);
    } catch (const RecipeErrors& errors) {
      return cut(errors.report());
    } catch (const Error& error) {
      return cut(error.what());
    }
    return "no error";
  }

 private:
  std::string cut(std::string text) const {
    for (const std::string& prefix : {folder_.path().string() + "/", zoo_.path() + "/"}) {
      for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
        text.erase(at, prefix.size());
      }
    }
    return text;
  }

  ZooFolder zoo_;
  ScratchFolder folder_;
};

// How a report begins where a plugin is missing: the line of "need" is above all others.
constexpr char kMissing[] = "r.json:2: /plugins/need/0: a required plugin is missing";
constexpr char kOther[] = "r.json:2: /plugins/need/0: a plugin that is needed is there in another";

}  // namespace

TEST_CASE("a plugin that is needed and missing is reported with all other problems", "[cli]") {
  const std::string report = Checking().report(R"(["org.tenon.zoo.god_c", "org.else >= 2"])");
  CHECK_THAT(report, contains_text(kMissing));
  CHECK_THAT(report,
             contains_text("[recipe.plugin_missing]\n    expected org.tenon.zoo.god_c in /"));
  CHECK_THAT(report, contains_text("did you mean \"org.tenon.zoo.good_c\"?"));
  CHECK_THAT(report, contains_text("/plugins/need/1: a required plugin is missing"));
  CHECK_THAT(report, contains_text("r.json:3: /model/type: "));
  CHECK_THAT(report, contains_text("5 errors in r.json; nothing was started"));
}

TEST_CASE("a version of a plugin is held against what is needed", "[cli]") {
  const Checking checking;
  const auto is_met = [&checking](const std::string& relation) {
    const std::string report = checking.report("[\"org.tenon.zoo.good_c" + relation + "\"]");
    CHECK_THAT(report, contains_text("errors in r.json"));  // those that it has anyway
    return report.find(kOther) == std::string::npos;
  };
  // It is 1.0.0.
  CHECK(is_met(""));
  CHECK(is_met(" >= 1"));
  CHECK(is_met(" >= 1.0.0"));
  CHECK(is_met(" == 1"));
  CHECK(is_met(" == 1.0"));
  CHECK(is_met(" >= 0.99.99"));
  CHECK_FALSE(is_met(" >= 1.0.1"));
  CHECK_FALSE(is_met(" == 1.1"));
  CHECK_FALSE(is_met(" >= 2"));
}

TEST_CASE("the message on a version says which there is", "[cli]") {
  const std::string report = Checking().report(R"(["org.tenon.zoo.good_c >= 1.2"])");
  CHECK_THAT(report,
             contains_text("version [recipe.plugin_missing]\n"
                           "    expected org.tenon.zoo.good_c >= 1.2\n"
                           "    found: good_c.so (org.tenon.zoo.good_c 1.0.0)\n"));
}

TEST_CASE("a plugin that is needed and refused is a plugin's error", "[cli]") {
  CHECK_THAT(Checking().report(R"(["org.tenon.zoo.crashes_in_entry"])"),
             contains_text("[plugin.crashed] the recipe needs plugin "
                           "org.tenon.zoo.crashes_in_entry: crashes_in_entry.so ("));
}

}  // namespace tenon
