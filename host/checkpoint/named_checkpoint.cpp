// SPDX-License-Identifier: Apache-2.0

#include "host/checkpoint/named_checkpoint.hpp"

#include "host/checkpoint/checkpoint_order.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

// True if the folder is a committed checkpoint, valid or not. Only this folder is read: the others
// beside it may be anybody's.
bool is_checkpoint_here(LocalStorage& storage, const std::string& name) {
  try {
    storage.commit_record(name);
  } catch (const Error& error) {
    return error.id() != "storage.not_found";
  }
  return true;
}

}  // namespace

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
    if (CheckpointOrder order = checkpoint_order(storage); !order.checkpoints.empty()) {
      return {.storage = std::move(storage),
              .root = folder.string(),
              .checkpoints = std::move(order.checkpoints),
              .warnings = std::move(order.warnings)};
    }
  }
  const std::string name = full.filename().string();
  if (fs::exists(full / "COMMITTED", error)) {
    check_checkpoint_name(name);
    auto storage = std::make_shared<LocalStorage>(full.parent_path().string());
    if (is_checkpoint_here(*storage, name)) {
      return {.storage = std::move(storage),
              .root = full.parent_path().string(),
              .checkpoints = {name}};
    }
  }
  if (fs::is_directory(full / "snapshots", error)) {
    throw Error("storage.not_found",
                path + " is a folder of the Hugging Face cache; pass one of its snapshots: " +
                    (full / "snapshots/REVISION").string());
  }
  throw Error(
      "storage.not_found",
      (fs::exists(full, error) ? "no finished checkpoint at " + path : path + " does not exist") +
          "; pass a run folder with checkpoints, or a folder in its \"checkpoints\"");
}

NamedCheckpoint find_checkpoint(const std::string& path) {
  NamedCheckpoints found = find_checkpoints(path);
  for (const std::string& warning : found.warnings) {
    log_warning(warning);
  }
  return {.storage = std::move(found.storage), .checkpoint = std::move(found.checkpoints.back())};
}

}  // namespace tenon
