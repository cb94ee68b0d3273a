// SPDX-License-Identifier: Apache-2.0

#include "host/io/control_group.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

void add_groups(const fs::path& mount,
                const std::string& path,
                bool is_version_2,
                std::vector<ControlGroup>& groups) {
  fs::path group = (mount / fs::path(path).relative_path()).lexically_normal();
  while (true) {
    groups.push_back({group.string(), is_version_2});
    if (group == mount || !group.has_relative_path() || group == group.parent_path()) {
      return;
    }
    group = group.parent_path();
  }
}

// Whether a comma-separated list has a word.
bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) {
      return true;
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  const fs::path base(root);
  const fs::path mount = base / "sys/fs/cgroup";
  std::vector<ControlGroup> groups;
  std::ifstream in(base / "proc/self/cgroup");
  // Lines "ID:CONTROLLERS:PATH"; version 2 has no controllers.
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      add_groups(mount, path, true, groups);
    } else if (has_word(controllers, controller)) {
      add_groups(mount / controller, path, false, groups);
    }
  }
  return groups;
}

}  // namespace tenon
