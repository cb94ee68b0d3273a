// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/temporary_folder.hpp"

#include "host/error/error.hpp"

#include <cstdlib>
#include <string>
#include <system_error>

namespace tenon {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tenon-check-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw Error("run.out_of_resources", "cannot create a folder in " + pattern);
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // the system removes what is left
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tenon
