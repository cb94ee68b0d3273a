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
    if (std::vector<std::string> bundles = storage->list(); !bundles.empty()) {
      return {
          .storage = std::move(storage), .root = folder.string(), .bundles = std::move(bundles)};
    }
  }
  const std::string name = full.filename().string();
  auto storage = std::make_shared<LocalStorage>(full.parent_path().string());
  for (const std::string& bundle : storage->list()) {
    if (bundle == name) {
      return {
          .storage = std::move(storage), .root = full.parent_path().string(), .bundles = {name}};
    }
  }
  throw Error("storage.not_found",
              (fs::exists(full, error) ? "there is no finished checkpoint at " + path
                                       : path + " is not there") +
                  "; name a run folder that has one, or a folder of its \"checkpoints\"");
}

NamedCheckpoint find_checkpoint(const std::string& path) {
  NamedCheckpoints found = find_checkpoints(path);
  return {.storage = std::move(found.storage), .bundle = std::move(found.bundles.back())};
}

}  // namespace tenon
