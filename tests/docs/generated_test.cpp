// SPDX-License-Identifier: Apache-2.0
//
// Tables on pages that the program prints: what stands between a comment with the command and the
// next "<!-- end -->" is what the command says. `./dev docs` writes it anew.
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/docs/markdown.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr char kStart[] = "<!-- host ";
constexpr char kEnd[] = "<!-- end -->";

struct GeneratedPart {
  std::vector<std::string> arguments;
  std::string text;
  bool is_closed = false;
};

std::vector<GeneratedPart> generated_parts(const std::string& page) {
  std::vector<GeneratedPart> parts;
  std::istringstream in(page);
  bool is_inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(kStart, 0) == 0) {
      std::istringstream words(line.substr(std::string(kStart).size()));
      parts.emplace_back();
      for (std::string word; words >> word && word != "-->";) {
        parts.back().arguments.push_back(word);
      }
      is_inside = true;
    } else if (is_inside && line == kEnd) {
      parts.back().is_closed = true;
      is_inside = false;
    } else if (is_inside) {
      parts.back().text += line + "\n";
    }
  }
  return parts;
}

std::string output_of(std::vector<std::string> arguments, const ScratchFolder& desk) {
  arguments.insert(arguments.begin(), host_program().string());
  SubprocessOptions options;
  options.environment = {{"XDG_CACHE_HOME", (desk.path() / "cache").string()},
                         {"TENON_PLUGIN_PATH", plugin_dir().string()}};
  const SubprocessResult result = run_subprocess(arguments, options);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return result.out;
}

}  // namespace

TEST_CASE("the tables that the program prints are those on the pages", "[docs][members]") {
  const ScratchFolder desk;
  std::vector<std::pair<fs::path, GeneratedPart>> parts;
  for (const fs::path& page : all_pages()) {
    for (GeneratedPart& part : generated_parts(read_text(page))) {
      parts.emplace_back(page, std::move(part));
    }
  }
  CHECK(parts.size() >= 30);
  for (const auto& [page, part] : members_of(std::move(parts), 24)) {
    INFO(page.string() << ": say ./dev docs");
    REQUIRE(part.is_closed);
    CHECK(part.text == output_of(part.arguments, desk));
  }
}

TEST_CASE("each first-party plugin's page has the options that the program prints", "[docs]") {
  const std::map<std::string, std::string> kinds = {{"datasets", "dataset"},
                                                    {"features", "feature"},
                                                    {"hooks", "hook"},
                                                    {"losses", "loss"},
                                                    {"lr_schedulers", "lr_scheduler"},
                                                    {"metrics", "metric"},
                                                    {"models", "model"},
                                                    {"optimizers", "optimizer"},
                                                    {"parametrizations", "parametrization"},
                                                    {"sinks", "metric_sink"},
                                                    {"storages", "storage"},
                                                    {"sparse_optimizers", "sparse_optimizer"},
                                                    {"tokenizers", "tokenizer"}};
  int num_plugins = 0;
  for (const auto& folder : fs::directory_iterator(source_dir() / "plugins")) {
    if (!folder.is_directory()) {
      continue;
    }
    const auto found = kinds.find(folder.path().filename().string());
    const std::string kind = found != kinds.end() ? found->second : "";
    for (const auto& plugin : fs::directory_iterator(folder)) {
      if (!fs::exists(plugin.path() / "CMakeLists.txt")) {  // what plugins share
        continue;
      }
      const std::string component = kind + ":" + plugin.path().filename().string();
      INFO(component);
      const std::string page = read_text(plugin.path() / "README.md");
      CHECK_THAT(page, contains_text(kStart + ("--describe " + component + " --markdown -->")));
      CHECK_THAT(read_text(source_dir() / "docs/reference/plugins.md"),
                 contains_text("/" + plugin.path().filename().string() + "/README.md)"));
      ++num_plugins;
    }
  }
  CHECK(num_plugins >= 25);
}

}  // namespace tenon
