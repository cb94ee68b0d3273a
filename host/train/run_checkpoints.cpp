// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_checkpoints.hpp"

#include "host/checkpoint/local_storage.hpp"
#include "host/device/device.hpp"
#include "host/distributed/failed_run.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/content_hash.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/recipe/plugin_difference.hpp"
#include "host/recipe/recipe_difference.hpp"
#include "host/train/checkpoint_storage.hpp"
#include "host/train/run_training.hpp"
#include "host/train/unsaved_run.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

std::vector<UsedPlugin> used_plugins(const CheckpointFacts& facts) {
  std::vector<UsedPlugin> result;
  for (const StoredPlugin& plugin : facts.plugins) {
    result.push_back({plugin.id, plugin.version, plugin.hash});
  }
  return result;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const Recipe& recipe,
                               const RunRequest& request,
                               const Mesh& mesh,
                               std::string device,
                               World& world,
                               ComponentFactory& factory,
                               std::optional<RunLock>& lock)
    : recipe_(recipe),
      request_(request),
      mesh_(mesh),
      device_(std::move(device)),
      world_(world),
      factory_(factory),
      lock_(lock) {}

// That of the ranks before a launcher started them again; "" where there is none.
std::string RunCheckpoints::earlier_folder() {
  const uint32_t num_restarts = world_.restart();
  if (num_restarts == 0 || !request_.run_dir.empty()) {
    return num_restarts == 0 ? "" : request_.run_dir;
  }
  std::string path;
  for (uint32_t restart = num_restarts; restart-- > 0 && path.empty();) {
    if (const auto store = world_.open_earlier_store(restart)) {
      path = FailedRunStore(*store).folder();
    }
  }
  return path;
}

// Nobody else writes in the folder from here on, until this run is over. Of ranks that are
// started again the first may find the one before it not quite gone.
void RunCheckpoints::claim_folder(const std::string& path) {
  static_assert(std::string_view(RunLock::kFile) == RunFolder::kLockFile);
  constexpr std::chrono::seconds kToEnd{10};
  lock_ = RunLock::take(path, world_.restart() > 0 ? kToEnd : std::chrono::seconds(0));
}

const std::optional<ComponentUse>& RunCheckpoints::storage_use() const {
  static const std::optional<ComponentUse> kLocalFiles;
  return recipe_.checkpoint.has_value() ? recipe_.checkpoint->storage : kLocalFiles;
}

const std::shared_ptr<BundleStorage>& RunCheckpoints::storage_at(const std::string& run_dir) {
  if (storage_ == nullptr || storage_of_ != run_dir) {
    storage_ = make_checkpoint_storage(factory_, storage_use(), run_dir, "checkpoints");
    storage_of_ = run_dir;
  }
  return storage_;
}

RunFolder RunCheckpoints::make_folder() {
  const auto claim = [this](const std::string& path) { claim_folder(path); };
  const std::string earlier = earlier_folder();
  const bool is_auto = request_.resume.from == ResumeFrom::kAuto;
  std::string path = earlier.empty() ? request_.run_dir : earlier;
  if (path.empty() && is_auto) {
    path = newest_run(recipe_.name,
                      [this](const std::string& run) { return !storage_at(run)->list().empty(); });
    if (path.empty()) {
      log_info("no run of the name " + recipe_.name + " has a checkpoint: the run begins anew");
    }
  }
  if (!path.empty() && (is_auto || !earlier.empty()) && !storage_at(path)->list().empty()) {
    // In the storage of a plugin there may be those of a run that was elsewhere.
    std::error_code ignored;
    const bool is_here = std::filesystem::exists(path + "/recipe.json", ignored);
    std::optional<RunFolder> folder;
    if (is_here) {
      claim_folder(path);
      folder = RunFolder::resume(path);
    } else {
      folder = RunFolder::create(path, recipe_.name, claim);
    }
    to_try_ = storage_at(path)->list();
    std::ranges::reverse(to_try_);
    return *folder;
  }
  if (!earlier.empty()) {
    if (const auto folder = RunFolder::reopen(earlier, claim)) {
      return *folder;
    }
  } else if (is_auto && recipe_.checkpoint.has_value() && is_unsaved_run(path, recipe_.name)) {
    const auto folder = RunFolder::reopen(path, [this](const std::string& here) {
      claim_folder(here);
      // Until now somebody else may have been at it.
      if (!is_unsaved_run(here, recipe_.name) || !storage_at(here)->list().empty()) {
        throw Error("run.dir_exists",
                    "the run folder " + here + " was changed just now; start the run again");
      }
    });
    if (folder.has_value()) {
      log_info("the run in " + path + " was lost before its first checkpoint: it begins anew");
      return *folder;
    }
  }
  return RunFolder::create(request_.run_dir, recipe_.name, claim);
}

SavedStates* RunCheckpoints::find(const RunFolder& folder) {
  // Ranks that are started again go on from what they have saved since.
  const bool has_own =
      !world_.control()
           .broadcast_text(
               to_try_.empty() ? "" : to_try_.front(), 0, "newest checkpoint of the run folder")
           .empty();
  if (request_.resume.from == ResumeFrom::kPath && !has_own) {
    NamedCheckpoints named = find_checkpoints(factory_, storage_use(), request_.resume.path);
    std::ranges::reverse(named.bundles);
    saved_.emplace(std::move(named.storage),
                   world_.control(),
                   std::move(named.bundles),
                   [this](const CheckpointReader& reader) { check_changes(reader); });
  } else {
    saved_.emplace(storage_at(folder.path()),
                   world_.control(),
                   to_try_,
                   [this, &folder](const CheckpointReader& reader) {
                     check_changes(reader);
                     if (is_first()) {
                       folder.write("recipe.json", frozen_recipe(recipe_));
                     }
                   });
  }
  return saved_->is_empty() ? nullptr : &*saved_;
}

// What the recipe, the plugins and the machine have become since a checkpoint was made. Every
// rank finds the same, rank 0 tells it. Errors  resume.recipe_changed; that of a plugin that is
// too different
void RunCheckpoints::check_changes(const CheckpointReader& reader) {
  if (const std::string& kind = reader.index().facts.kind; kind != kFullCheckpoint) {
    throw Error("resume.only_weights",
                reader.address() +
                    " has parameters alone, and no run goes on from them; name a folder of a run's "
                    "\"checkpoints\"");
  }
  const auto changes =
      recipe_changes({reader.recipe(), reader.index().num_ranks()},
                     {frozen_recipe(recipe_), static_cast<int64_t>(mesh_.world_size())});
  refuse_changes(changes, reader.address());
  std::vector<RecipeChange> told;
  std::ranges::copy_if(changes, std::back_inserter(told), [](const RecipeChange& change) {
    return change.change == ChangeClass::kWarns;
  });
  const CheckpointFacts& now = facts();
  const CheckpointFacts& then = reader.index().facts;
  const auto plugins = plugin_changes(used_plugins(then), used_plugins(now));
  refuse_changes(plugins, reader.address());
  if (!is_first()) {
    return;
  }
  if (!told.empty()) {
    log_warning("the recipe is not the one of " + reader.address() + ":\n" + changes_text(told));
  }
  for (const PluginChange& change : plugins) {
    if (change.change == ChangeClass::kWarns) {
      log_warning(change.what);
    }
  }
  const auto differs = [](const char* what, const std::string& was, const std::string& is) {
    if (was != is) {
      log_warning(std::string(what) + " was " + was + ", and is " + is +
                  ": the run goes on, but not to the bit");
    }
  };
  differs("libtorch", then.torch, now.torch);
  differs("the machine", then.machine, now.machine);
}

const CheckpointFacts& RunCheckpoints::facts() {
  if (facts_.has_value()) {
    return *facts_;
  }
  CheckpointFacts& facts = facts_.emplace();
  facts.run = recipe_.name;
  facts.kind = kFullCheckpoint;
  facts.tenon = kVersion;
  facts.torch = kTorchVersion;
  const std::string cpu = describe_cpu();
  facts.machine = cpu.substr(cpu.find(", ") + 2);  // without the threads
  facts.compute_threads = recipe_.compute_threads;
  facts.precision = recipe_.train.precision;
  facts.device = device_;
  for (const LoadedPlugin* plugin : loaded_plugins()) {
    const PluginContext& context = plugin->host.context();
    facts.plugins.push_back({context.id, context.version, content_hash(context.file).value_or("")});
  }
  return facts;
}

}  // namespace tenon
