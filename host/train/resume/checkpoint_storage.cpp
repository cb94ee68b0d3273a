// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/checkpoint_storage.hpp"

#include "host/checkpoint/checkpoint_order.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/checkpoint/plugin_storage.hpp"
#include "host/error/error.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon {

std::string storage_location(const std::string& run_dir, const std::string& what) {
  // A path may end in '/', or be ".".
  const std::filesystem::path full =
      std::filesystem::weakly_canonical(std::filesystem::absolute(run_dir));
  return (full.has_filename() ? full : full.parent_path()).filename().string() + "/" + what;
}

std::unique_ptr<CheckpointStore> make_checkpoint_storage(ComponentFactory& factory,
                                                         const std::optional<ComponentUse>& use,
                                                         const std::string& run_dir,
                                                         const std::string& what) {
  if (!use.has_value()) {
    return std::make_unique<LocalStorage>(run_dir + "/" + what);
  }
  return std::make_unique<PluginStorage>(factory.create(*use, "storage/" + what),
                                         storage_location(run_dir, what));
}

NamedCheckpoints find_checkpoints(ComponentFactory& factory,
                                  const std::optional<ComponentUse>& use,
                                  const std::string& path) {
  try {
    return find_checkpoints(path);
  } catch (const Error& error) {
    if (error.id() != "storage.not_found" || !use.has_value()) {
      throw;
    }
  }
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path full = fs::absolute(path, ignored).lexically_normal();
  const auto storage_of = [&](const fs::path& run_dir) -> std::shared_ptr<CheckpointStore> {
    return make_checkpoint_storage(factory, use, run_dir.string(), "checkpoints");
  };
  auto storage = storage_of(full);
  if (CheckpointOrder order = checkpoint_order(storage); !order.checkpoints.empty()) {
    return {.storage = std::move(storage),
            .root = "",
            .checkpoints = std::move(order.checkpoints),
            .warnings = std::move(order.warnings)};
  }
  const std::string name = full.filename().string();
  if (full.parent_path().filename() == "checkpoints") {
    storage = storage_of(full.parent_path().parent_path());
    const std::vector<std::string> checkpoints = storage->list();
    if (std::ranges::find(checkpoints, name) != checkpoints.end()) {
      return {.storage = std::move(storage), .root = "", .checkpoints = {name}};
    }
  }
  throw Error("storage.not_found",
              "there is no finished checkpoint at " + path +
                  ", and none of that name in the storage of the recipe, " +
                  storage->address(name) + "; name a run that has one");
}

}  // namespace tenon
