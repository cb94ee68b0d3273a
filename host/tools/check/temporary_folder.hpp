// SPDX-License-Identifier: Apache-2.0
//
// A new folder for what a check writes.
// Threads: any.
#pragma once

#include <filesystem>

namespace tenon {

// The folder exists as long as the object, unless the process is killed.
class TemporaryFolder {
 public:
  // Errors   run.out_of_resources
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tenon
