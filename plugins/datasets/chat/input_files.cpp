// SPDX-License-Identifier: Apache-2.0
#include "input_files.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <algorithm>
#include <filesystem>
#include <glob.h>
#include <system_error>

namespace tenon {

std::vector<std::string> expand_file_names(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (name.find_first_of("*?[") == std::string::npos || std::filesystem::exists(name, ignored)) {
      files.push_back(name);
      continue;
    }
    glob_t found{};
    const int result = ::glob(name.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
    std::vector<std::string> matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (result == GLOB_NOMATCH) {
      TENON_FAIL(TENON_NOT_FOUND, "chat.open", "no file matches the pattern ", name);
    }
    if (result != 0) {
      TENON_FAIL(TENON_IO, "chat.open", "cannot read the folders of the pattern ", name);
    }
    std::sort(matches.begin(), matches.end());
    files.insert(files.end(), matches.begin(), matches.end());
  }
  return files;
}

std::string read_text_file(const std::string& path) {
  const StableFile file(path, "chat");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, text.size(), text.data());
  file.check_unchanged(0);
  return text;
}

}  // namespace tenon
