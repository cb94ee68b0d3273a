// SPDX-License-Identifier: Apache-2.0
//
// A folder of a test's own, removed with all that is in it when the test is over.
#pragma once

#include <filesystem>
#include <string_view>

namespace tenon {

class ScratchFolder {
 public:
  // Makes an empty folder under the system's temporary folder.
  ScratchFolder();
  // Makes an empty folder with this path.
  explicit ScratchFolder(std::filesystem::path path);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ScratchFolder(ScratchFolder&&) = delete;
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file, with the folders above it, and returns its full path.
  std::filesystem::path write(const std::filesystem::path& name, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

}  // namespace tenon
