// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/newest_checkpoint.hpp"

#include "host/checkpoint/named_checkpoint.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/log/log.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/resume/checkpoint_storage.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Finds the checkpoints in local files; nothing if there are none.
std::optional<NamedCheckpoints> find_local(const std::string& path) {
  try {
    return find_checkpoints(path);
  } catch (const Error& error) {
    if (error.id() != "storage.not_found") {
      throw;
    }
    return std::nullopt;
  }
}

// Returns the frozen recipe of the run that a path (RUN or RUN/checkpoints/NAME) names; "" if there
// is none.
std::string recipe_of_run(const std::string& path) {
  std::error_code ignored;
  const fs::path full = fs::absolute(path, ignored).lexically_normal();
  for (const fs::path& run : {full, full.parent_path().parent_path()}) {
    if (const fs::path file = run / "recipe.json"; fs::exists(file, ignored)) {
      return file.string();
    }
  }
  return "";
}

// Uses the newest valid checkpoint.
std::string use_newest(const NamedCheckpoints& checkpoints,
                       const std::function<std::string(const CheckpointReader&)>& use_one) {
  std::ranges::for_each(checkpoints.warnings, log_warning);
  std::optional<Error> first;
  for (size_t i = checkpoints.checkpoints.size(); i-- > 0;) {
    try {
      const CheckpointReader reader = from_checkpoint(
          [&] { return CheckpointReader(checkpoints.storage, checkpoints.checkpoints[i]); });
      return use_one(reader);
    } catch (const CorruptCheckpoint& unsound) {
      if (!first.has_value()) {
        first = unsound.why;
      }
      if (i > 0) {
        log_warning(unsound.why.message() + "; trying the checkpoint before it");
      }
    }
  }
  throw Error(first.value());
}

}  // namespace

std::string with_newest_checkpoint(const std::string& path,
                                   const RecipeReading& read_recipe,
                                   PluginRegistry& registry,
                                   const CheckpointReading& use) {
  if (const auto local = find_local(path)) {
    return use_newest(*local, [&](const CheckpointReader& reader) {
      return use(reader, read_recipe(reader.address() + "/recipe.json"));
    });
  }
  const std::string file = recipe_of_run(path);
  if (file.empty()) {
    find_checkpoints(path);  // throws, with a suggestion
  }
  const Recipe recipe = read_recipe(file);
  const Mesh mesh;
  const tenon_mesh mesh_view = mesh.view();
  ComponentFactory factory(registry, recipe, mesh_view);
  const auto storage = recipe.checkpoint.has_value() ? recipe.checkpoint->storage : std::nullopt;
  return use_newest(find_checkpoints(factory, storage, path),
                    [&](const CheckpointReader& reader) { return use(reader, recipe); });
}

}  // namespace tenon
