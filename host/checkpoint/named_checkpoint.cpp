// SPDX-License-Identifier: Apache-2.0

#include "host/checkpoint/named_checkpoint.hpp"

#include "host/checkpoint/local_storage.hpp"
#include "host/error/error.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace tenon {

NamedCheckpoints find_checkpoints(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path full = fs::absolute(path, error).lexically_normal();
  if (!full.has_filename()) {  // "runs/a/"
    full = full.parent_path();
  }
  for (const fs::path& folder : {full / "checkpoints", full}) {
    if (!fs::is_directory(folder, error)) {
      continue;
    }
    auto storage = std::make_shared<LocalStorage>(folder.string());
    if (std::vector<std::string> checkpoints = storage->list(); !checkpoints.empty()) {
      return {.storage = std::move(storage),
              .root = folder.string(),
              .checkpoints = std::move(checkpoints)};
    }
  }
  const std::string name = full.filename().string();
  auto storage = std::make_shared<LocalStorage>(full.parent_path().string());
  for (const std::string& checkpoint : storage->list()) {
    if (checkpoint == name) {
      return {.storage = std::move(storage),
              .root = full.parent_path().string(),
              .checkpoints = {name}};
    }
  }
  throw Error(
      "storage.not_found",
      (fs::exists(full, error) ? "no finished checkpoint at " + path : path + " does not exist") +
          "; pass a run folder with checkpoints, or a folder in its \"checkpoints\"");
}

NamedCheckpoint find_checkpoint(const std::string& path) {
  NamedCheckpoints found = find_checkpoints(path);
  return {.storage = std::move(found.storage), .checkpoint = std::move(found.checkpoints.back())};
}

}  // namespace tenon
