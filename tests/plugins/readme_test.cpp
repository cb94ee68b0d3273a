// SPDX-License-Identifier: Apache-2.0
//
// Each plugin's README lists its options in a table ("| option | type | default | meaning |"); here
// it is held against the schema that the plugin publishes.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"

namespace {

namespace fs = std::filesystem;

// The kind of component that a folder of plugins/ holds.
const std::map<std::string, std::string> kKinds = {{"datasets", "dataset"},
                                                   {"hooks", "hook"},
                                                   {"losses", "loss"},
                                                   {"lr_schedulers", "lr_scheduler"},
                                                   {"metrics", "metric"},
                                                   {"models", "model"},
                                                   {"optimizers", "optimizer"},
                                                   {"sinks", "metric_sink"},
                                                   {"tokenizers", "tokenizer"}};

// Option to default, as the table has them: "`lr`" to "1e-3".
std::map<std::string, std::string> options_in(const fs::path& readme) {
  static const std::regex kRow(R"(\| `([a-z0-9_]+)` \| .*? \| (.*?) \| .*)");
  std::map<std::string, std::string> options;
  std::ifstream in(readme);
  bool is_options = false;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (line.rfind("| option |", 0) == 0) {
      is_options = true;
    } else if (line.rfind("|", 0) != 0) {
      is_options = false;
    } else if (is_options && std::regex_match(line, match, kRow)) {
      options[match[1]] = match[2];
    }
  }
  return options;
}

// "`x`" without its marks.
std::string plain(std::string text) {
  if (text.size() > 1 && text.front() == '`' && text.back() == '`') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

TEST_CASE("each plugin's README has the options of its schema, with their defaults", "[plugins]") {
  size_t num_plugins = 0;
  for (const auto& [folder, kind] : kKinds) {
    const fs::path of_kind = tenon::source_dir() / "plugins" / folder;
    if (!fs::exists(of_kind)) {
      continue;
    }
    for (const auto& entry : fs::directory_iterator(of_kind)) {
      if (!entry.is_directory()) {  // what plugins of a kind share
        continue;
      }
      const std::string type = entry.path().filename().string();
      CAPTURE(folder, type);
      ++num_plugins;
      CHECK(fs::exists(entry.path() / "README.md"));
      const auto listed = options_in(entry.path() / "README.md");
      const auto schema = nlohmann::json::parse(tenon::options_schema(kind, type));
      const auto properties = schema.value("properties", nlohmann::json::object());
      for (const auto& [name, property] : properties.items()) {
        INFO("option " << name << " of the schema");
        CHECK(listed.count(name) == 1);
        if (listed.count(name) == 0) {
          continue;
        }
        const std::string stated = plain(listed.at(name));
        if (!property.contains("default")) {
          CHECK(stated == "required");
          continue;
        }
        const auto& value = property["default"];
        if (value.is_string() && stated == value.get<std::string>()) {
          continue;
        }
        INFO("the README says " << stated << ", the schema " << value.dump());
        CHECK(nlohmann::json::parse(stated, nullptr, /*allow_exceptions=*/false) == value);
      }
      for (const auto& [name, stated] : listed) {
        INFO("option " << name << " of the README");
        CHECK(properties.contains(name));
      }
    }
  }
  CHECK(num_plugins >= 13);
}
