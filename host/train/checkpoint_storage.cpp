// SPDX-License-Identifier: Apache-2.0
#include "host/train/checkpoint_storage.hpp"

#include "host/checkpoint/local_storage.hpp"
#include "host/checkpoint/plugin_storage.hpp"

#include <filesystem>

namespace tenon {

std::string storage_place(const std::string& run_dir, const std::string& what) {
  // A path may end in '/', or be ".".
  const std::filesystem::path full =
      std::filesystem::weakly_canonical(std::filesystem::absolute(run_dir));
  return (full.has_filename() ? full : full.parent_path()).filename().string() + "/" + what;
}

std::unique_ptr<BundleStorage> make_checkpoint_storage(ComponentFactory& factory,
                                                       const std::optional<ComponentUse>& use,
                                                       const std::string& run_dir,
                                                       const std::string& what) {
  if (!use.has_value()) {
    return std::make_unique<LocalStorage>(run_dir + "/" + what);
  }
  return std::make_unique<PluginStorage>(factory.create(*use, "storage/" + what),
                                         storage_place(run_dir, what));
}

}  // namespace tenon
