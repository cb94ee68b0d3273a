// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/zoo/zoo_page.hpp"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/faults/zoo/zoo_run.hpp"
#include "tests/support/paths.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr std::size_t kMostShown = 150;

// The message without what differs between machines and runs: folders, addresses and counts of
// bytes.
std::string steady(std::string text) {
  text = std::regex_replace(text, std::regex(R"((/[^\s/"|)]+)+/)"), "");
  text = std::regex_replace(text, std::regex(R"(\(\+?0x[0-9a-f]+\)|\[0x[0-9a-f]+\])"), "");
  text = std::regex_replace(text, std::regex(R"(0x[0-9a-f]+)"), "0x...");
  text = std::regex_replace(text, std::regex(R"( \(plugin org\.tenon\.zoo\.[^)]*\))"), "");
  text = std::regex_replace(text, std::regex(R"([|\n])"), " ");
  return text;
}

// The part of a message that has `says`, cut between words.
std::string excerpt(const std::string& found, const std::string& says) {
  std::string text = steady(found);
  if (text.size() <= kMostShown) {
    return text;
  }
  const std::size_t at = std::min(text.find(says), text.size());
  const std::size_t last = at + std::max(says.size(), std::size_t{1});
  const std::size_t begin = last <= kMostShown ? 0 : last - kMostShown;
  const bool is_cut_after = begin + kMostShown < text.size();
  text = text.substr(begin, kMostShown);
  if (is_cut_after) {
    text = text.substr(0, text.rfind(' ')) + " ...";
  }
  return begin > 0 ? "... " + text.substr(text.find(' ') + 1) : text;
}

std::string row_key(const ZooMember& member) {
  std::string checks;
  for (const std::string& check : member.checks) {
    checks += (checks.empty() ? "`" : ", `") + check + "`";
  }
  return "`" + member.name + "` | " + (checks.empty() ? "none: a good plugin" : checks);
}

void add_plugins_of(const fs::path& folder, std::set<std::string>& names) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    // Their rows name what they do, such as "throws in create".
    const bool has_rows = stem == "misbehaves" || stem == "throws" || stem == "throws_alone";
    if (entry.path().extension() == ".so" && !has_rows) {
      names.insert(stem);
    }
  }
}

}  // namespace

std::vector<ZooMember>& checked_members() {
  static std::vector<ZooMember> members;
  return members;
}

std::set<std::string> all_members() {
  std::set<std::string> names;
  add_plugins_of(build_dir() / "tests/zoo", names);
  add_plugins_of(build_dir() / "tests/faults_zoo", names);
  names.erase("by_hand_rust");  // good, and only built where rustc is: sdk_rust_test checks it
  for (const auto& rows : {load_rows(),
                           process_state_rows(),
                           start_rows(),
                           graph_rows(),
                           result_rows(),
                           handle_rows(),
                           data_rows(),
                           hook_rows(),
                           undeclared_rows(),
                           crash_rows(),
                           hang_rows(),
                           end_rows()}) {
    for (const BadRun& row : rows) {
      names.insert(row.name);
    }
  }
  return names;
}

std::string zoo_page() {
  std::ostringstream page;
  page << R"(# The zoo

Bad plugins, each with one mistake, and a few good ones. The table names the checks of
`--check-plugin` that fail for a member, and quotes what they report. The test
`check_plugin_test` holds members and checks against this page.
`TENON_UPDATE_ZOO=1 build/tests/check_plugin_test` writes it, from the output of the program.

| member | fails | message |
|---|---|---|
)";
  std::map<std::string, const ZooMember*> rows;
  for (const ZooMember& member : checked_members()) {
    rows.emplace(row_key(member), &member);
  }
  for (const auto& [key, member] : rows) {
    page << "| " << key << " | " << excerpt(member->found, member->says) << " |\n";
  }
  page << R"(
## Not found by checks

`zoo_test` runs the program with these members, and other tests load them.

| member | why no check fails |
|---|---|
)";
  for (const UncheckedMember& member : unchecked_members()) {
    page << "| `" << member.name << "` | " << member.reason << " |\n";
  }
  return page.str();
}

std::map<std::string, std::string> rows_of_page(const std::string& page) {
  std::map<std::string, std::string> rows;
  std::istringstream in(page);
  for (std::string line; std::getline(in, line);) {
    const std::size_t last = line.rfind(" | ");
    if (line.starts_with("| `") && last != std::string::npos) {
      rows[line.substr(2, last - 2)] = line.substr(last + 3);
    }
  }
  return rows;
}

std::string zoo_page_path() {
  return (source_dir() / "tests/faults/zoo/README.md").string();
}

}  // namespace tenon
