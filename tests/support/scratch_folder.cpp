// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scratch_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace tenon {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tenon-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  path_ = name;
}

ScratchFolder::ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {
  if (!std::filesystem::create_directories(path_)) {
    throw std::runtime_error(path_.string() + " exists already");
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // a destructor has nobody to tell
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path ScratchFolder::write(const std::filesystem::path& name,
                                           std::string_view content) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << content;
  out.close();
  if (!out) {
    throw std::runtime_error("cannot write " + file.string());
  }
  return file;
}

}  // namespace tenon
