// SPDX-License-Identifier: Apache-2.0
#include "host/error/catalogue.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> catalogue_ids() {
  std::vector<std::string> ids;
  for (const ErrorEntry& entry : all_errors()) {
    ids.emplace_back(entry.id);
  }
  return ids;
}

// The "## id" headings of the page, in its order.
std::vector<std::string> documented_ids() {
  std::ifstream page(source_dir() / "docs/reference/errors.md");
  REQUIRE(page);
  std::vector<std::string> ids;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) {
      ids.push_back(line.substr(3));
    }
  }
  return ids;
}

// Every "area.id" that a source file of the host hands to an error, with the file it stands in.
std::map<std::string, std::string> raised_ids() {
  // Error("id", StatusError(CODE, "id", .id = "id", add("id", fail("id"
  const std::regex raising(
      R"re((?:Error\(|Error\(\s*TENON_[A-Z_]+,|\.id =|add\(|fail\()\s*"([a-z_]+\.[a-z0-9_]+)")re");
  std::map<std::string, std::string> ids;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir() / "host")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".hpp") {
      continue;
    }
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator found(text.begin(), text.end(), raising), end; found != end;
         ++found) {
      ids.emplace((*found)[1].str(), entry.path().string());
    }
  }
  return ids;
}

}  // namespace

TEST_CASE("the catalogue and its page have the same ids in the same order", "[error]") {
  CHECK(documented_ids() == catalogue_ids());
}

TEST_CASE("the page gives each id its exit status, a cause and a remedy", "[error]") {
  const std::string page = read_file(source_dir() / "docs/reference/errors.md");
  for (const ErrorEntry& entry : all_errors()) {
    INFO(entry.id);
    const std::size_t start = page.find("\n## " + std::string(entry.id) + "\n");
    REQUIRE(start != std::string::npos);
    const std::string section = page.substr(start, page.find("\n## ", start + 1) - start);
    const int status = static_cast<int>(entry.exit_code);
    CHECK_THAT(section, contains_text("\n- Exit status: " + std::to_string(status) + "\n"));
    CHECK_THAT(section, contains_text("\n- Usual cause: "));
    CHECK_THAT(section, contains_text("\n- What to do: "));
  }
}

TEST_CASE("each id that the host raises is in the catalogue", "[error]") {
  const std::map<std::string, std::string> raised = raised_ids();
  CHECK(raised.size() > 20);  // the search itself works
  for (const auto& [id, file] : raised) {
    INFO(id << " in " << file);
    CHECK(find_error(id) != nullptr);
  }
}

TEST_CASE("ids are an area and a name, and summaries are one line", "[error]") {
  const std::regex form("[a-z]+\\.[a-z0-9_]+");
  for (const ErrorEntry& entry : all_errors()) {
    INFO(entry.id);
    CHECK(std::regex_match(std::string(entry.id), form));
    CHECK(!entry.summary.empty());
    CHECK(entry.summary.find('\n') == std::string_view::npos);
    CHECK(entry.summary.back() != '.');
  }
}

TEST_CASE("an error of an area ends with the status that the area promises", "[error]") {
  for (const ErrorEntry& entry : all_errors()) {
    INFO(entry.id);
    if (entry.id.starts_with("recipe.")) {
      CHECK(entry.exit_code == ExitCode::kRecipe);
    } else if (entry.id.starts_with("usage.")) {
      CHECK(entry.exit_code == ExitCode::kUsage);
    } else if (entry.id == "plugin.dir_unreadable") {
      CHECK(entry.exit_code == ExitCode::kUsage);
    } else if (entry.id.starts_with("plugin.")) {
      CHECK(entry.exit_code == ExitCode::kPlugin);
    }
    CHECK(entry.exit_code != ExitCode::kDone);
  }
}

TEST_CASE("an entry is found by its whole id alone", "[error]") {
  REQUIRE(find_error("recipe.syntax") != nullptr);
  CHECK(find_error("recipe.syntax")->id == "recipe.syntax");
  CHECK(find_error("recipe") == nullptr);
  CHECK(find_error("recipe.syntaxx") == nullptr);
  CHECK(find_error("") == nullptr);
  CHECK(find_error("zzz.zzz") == nullptr);
}

TEST_CASE("exit statuses are the numbers that scripts know", "[error]") {
  CHECK(static_cast<int>(ExitCode::kDone) == 0);
  CHECK(static_cast<int>(ExitCode::kDifferent) == 1);
  CHECK(static_cast<int>(ExitCode::kUsage) == 2);
  CHECK(static_cast<int>(ExitCode::kRecipe) == 3);
  CHECK(static_cast<int>(ExitCode::kPlugin) == 4);
  CHECK(static_cast<int>(ExitCode::kFailed) == 5);
  CHECK(static_cast<int>(ExitCode::kNonFinite) == 6);
  CHECK(static_cast<int>(ExitCode::kStopped) == 75);
  CHECK(exit_code_of("no.such_id") == ExitCode::kFailed);
}

}  // namespace tenon
