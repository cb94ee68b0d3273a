// SPDX-License-Identifier: Apache-2.0
//
// Links between pages lead somewhere, and every page and plugin can be reached.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/docs/markdown.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

bool is_outside(const std::string& link) {
  return link.rfind("http://", 0) == 0 || link.rfind("https://", 0) == 0;
}

// Where a link of a page leads, without its anchor.
fs::path target_of(const fs::path& page, const std::string& link) {
  const std::string path = link.substr(0, link.find('#'));
  return path.empty() ? page : (page.parent_path() / path).lexically_normal();
}

}  // namespace

TEST_CASE("links between pages lead to files and headings that exist", "[docs]") {
  for (const fs::path& page : all_pages()) {
    for (const std::string& link : links_of(read_text(page))) {
      if (is_outside(link)) {
        continue;
      }
      INFO(page.string() << ": " << link);
      const fs::path target = target_of(page, link);
      REQUIRE(fs::exists(target));
      const std::size_t hash = link.find('#');
      if (hash != std::string::npos) {
        const std::vector<std::string> anchors = anchors_of(read_text(target));
        CHECK(std::find(anchors.begin(), anchors.end(), link.substr(hash + 1)) != anchors.end());
      }
    }
  }
}

TEST_CASE("every page can be reached from the README", "[docs]") {
  std::set<fs::path> reached;
  std::vector<fs::path> to_visit = {source_dir() / "README.md"};
  while (!to_visit.empty()) {
    const fs::path page = to_visit.back();
    to_visit.pop_back();
    if (!reached.insert(page).second) {
      continue;
    }
    for (const std::string& link : links_of(read_text(page))) {
      const fs::path target = is_outside(link) ? fs::path() : target_of(page, link);
      if (target.extension() == ".md" && fs::exists(target)) {
        to_visit.push_back(target);
      }
    }
  }
  for (const fs::path& page : all_pages()) {
    INFO(page.string());
    CHECK(reached.count(page) == 1);
  }
}

TEST_CASE("files that the architecture page and the reading order name exist", "[docs]") {
  int num_files = 0;
  for (const char* const name :
       {"docs/architecture.md", "docs/reading-order.md", "docs/performance.md"}) {
    const std::string prose = prose_of(read_text(source_dir() / name));
    // `host/train/trainer.cpp`, `sdk/include/tenon/`: code that starts with a folder of the root.
    for (std::size_t at = prose.find('`'); at != std::string::npos;) {
      const std::size_t end = prose.find('`', at + 1);
      REQUIRE(end != std::string::npos);
      const std::string code = prose.substr(at + 1, end - at - 1);
      const std::string top = code.substr(0, code.find('/'));
      const bool is_path =
          code.find('/') != std::string::npos &&
          code.find_first_of("*<> \n:") == std::string::npos &&
          std::set<std::string>{"host", "sdk", "plugins", "tests", "recipes", "docs", "cmake"}
                  .count(top) != 0;
      if (is_path) {
        INFO(name << ": " << code);
        CHECK(fs::exists(source_dir() / code));
        ++num_files;
      }
      at = prose.find('`', end + 1);
    }
  }
  CHECK(num_files >= 20);
}

TEST_CASE("the plugin reference lists every first-party plugin", "[docs]") {
  const std::string page = read_text(source_dir() / "docs/reference/plugins.md");
  for (const auto& kind : fs::directory_iterator(source_dir() / "plugins")) {
    if (!kind.is_directory()) {
      continue;
    }
    for (const auto& plugin : fs::directory_iterator(kind.path())) {
      if (!fs::exists(plugin.path() / "CMakeLists.txt")) {  // what plugins of one kind share
        continue;
      }
      const std::string folder =
          kind.path().filename().string() + "/" + plugin.path().filename().string();
      INFO(folder);
      CHECK(page.find("plugins/" + folder + "/") != std::string::npos);
    }
  }
}

TEST_CASE("the architecture page has the table of layers that the tree is held to", "[docs]") {
  const std::string page = read_text(source_dir() / "docs/architecture.md");
  for (const auto& folder : fs::directory_iterator(source_dir() / "host")) {
    if (folder.is_directory()) {
      INFO(folder.path().string());
      CHECK(page.find("\n| `" + folder.path().filename().string() + "` |") != std::string::npos);
    }
  }
}

}  // namespace tenon
