// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_checkpoints.hpp"

#include "host/checkpoint/local_storage.hpp"
#include "host/device/device.hpp"
#include "host/distributed/failures/failed_run.hpp"
#include "host/error/error.hpp"
#include "host/io/content_hash.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/recipe/plugin_difference.hpp"
#include "host/recipe/recipe_difference.hpp"
#include "host/train/resume/checkpoint_storage.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/resume/unsaved_run.hpp"

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

// Hashes of earlier releases cannot be compared and count as unknown.
std::vector<UsedPlugin> used_plugins(const CheckpointMetadata& metadata) {
  std::vector<UsedPlugin> result;
  for (const StoredPlugin& plugin : metadata.plugins) {
    result.push_back({plugin.id, plugin.version, is_content_hash(plugin.hash) ? plugin.hash : ""});
  }
  return result;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const RunContext& context, std::optional<RunLock>& lock)
    : context_(context),
      recipe_(context.recipe),
      request_(context.request),
      world_(context.world),
      lock_(lock) {}

// Returns the run folder from before a launcher restarted the ranks; "" if there was none.
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

// Locks the folder until the run ends. After a restart, waits for the previous process, which may
// still be ending.
void RunCheckpoints::claim_folder(const std::string& path) {
  static_assert(std::string_view(RunLock::kFile) == RunFolder::kLockFile);
  constexpr std::chrono::seconds kToEnd{10};
  lock_ = RunLock::take(path, world_.restart() > 0 ? kToEnd : std::chrono::seconds(0));
}

const std::optional<ComponentUse>& RunCheckpoints::storage_use() const {
  static const std::optional<ComponentUse> kLocalFiles;
  return recipe_.checkpoint.has_value() ? recipe_.checkpoint->storage : kLocalFiles;
}

const std::shared_ptr<CheckpointStore>& RunCheckpoints::storage_at(const std::string& run_dir) {
  if (storage_ == nullptr || storage_of_ != run_dir) {
    storage_ = make_checkpoint_storage(context_.factory, storage_use(), run_dir, "checkpoints");
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
      log_info("no run named " + recipe_.name + " has a checkpoint; starting over");
    }
  }
  if (!path.empty() && (is_auto || !earlier.empty()) && !storage_at(path)->list().empty()) {
    // A storage plugin may have checkpoints of a run whose folder is elsewhere.
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
      // Another process may have written here before the lock was taken.
      if (!is_unsaved_run(here, recipe_.name) || !storage_at(here)->list().empty()) {
        throw Error("run.dir_exists",
                    "the run folder " + here + " was changed just now; start the run again");
      }
    });
    if (folder.has_value()) {
      log_info("the run in " + path + " ended before its first checkpoint; starting over");
      return *folder;
    }
  }
  return RunFolder::create(request_.run_dir, recipe_.name, claim);
}

ResumeCandidates* RunCheckpoints::find(const RunFolder& folder) {
  // Restarted ranks resume from checkpoints of this run, not from --resume PATH.
  const bool has_own =
      !world_.control()
           .broadcast_text(
               to_try_.empty() ? "" : to_try_.front(), 0, "newest checkpoint of the run folder")
           .empty();
  if (request_.resume.from == ResumeFrom::kPath && !has_own) {
    NamedCheckpoints named =
        find_checkpoints(context_.factory, storage_use(), request_.resume.path);
    std::ranges::reverse(named.checkpoints);
    saved_.emplace(std::move(named.storage),
                   world_.control(),
                   std::move(named.checkpoints),
                   [this](const CheckpointReader& reader) {
                     check_changes(reader);
                     warn_of_missing_training(reader, request_.resume.path);
                   });
  } else {
    saved_.emplace(storage_at(folder.path()),
                   world_.control(),
                   to_try_,
                   [this, &folder](const CheckpointReader& reader) {
                     check_changes(reader);
                     warn_of_missing_training(reader, folder.path());
                     if (is_first()) {
                       folder.write("recipe.json", frozen_recipe(recipe_));
                     }
                   });
  }
  return saved_->is_empty() ? nullptr : &*saved_;
}

// Compares recipe, plugins and machine with those of a checkpoint. Refuses incompatible changes.
// All ranks find the same changes; rank 0 logs them.
// Errors  resume.only_weights; resume.recipe_changed; the error of a plugin that differs too much
void RunCheckpoints::check_changes(const CheckpointReader& reader) {
  if (const std::string& kind = reader.index().metadata.kind; kind != kFullCheckpoint) {
    throw Error(
        "resume.only_weights",
        reader.address() +
            " has only parameters, which are not enough to resume; name a checkpoint in the "
            "\"checkpoints\" folder of a run");
  }
  const auto changes =
      recipe_changes({reader.recipe(), reader.index().num_ranks()},
                     {frozen_recipe(recipe_), static_cast<int64_t>(world_.size())});
  refuse_changes(changes, reader.address());
  std::vector<RecipeChange> told;
  std::ranges::copy_if(changes, std::back_inserter(told), [](const RecipeChange& change) {
    return change.change == ChangeClass::kWarns;
  });
  const CheckpointMetadata& now = metadata();
  const CheckpointMetadata& then = reader.index().metadata;
  const auto plugins = plugin_changes(used_plugins(then), used_plugins(now));
  refuse_changes(plugins, reader.address());
  if (!is_first()) {
    return;
  }
  if (!told.empty()) {
    log_warning("the recipe differs from that of " + reader.address() + ":\n" + changes_text(told));
  }
  for (const PluginChange& change : plugins) {
    if (change.change == ChangeClass::kWarns) {
      log_warning(change.what);
    }
  }
  const auto differs = [](const char* what, const std::string& was, const std::string& is) {
    if (was != is) {
      log_warning(std::string(what) + " was " + was + ", and is " + is +
                  ": the run resumes, but results may differ in their last bits");
    }
  };
  differs("libtorch", then.torch, now.torch);
  differs("the machine", then.machine, now.machine);
}

// On rank 0, which reads the last step from the run folder at `path`.
void RunCheckpoints::warn_of_missing_training(const CheckpointReader& reader,
                                              const std::string& path) const {
  if (!is_first()) {
    return;
  }
  const auto warning = missing_training_text(
      path,
      reader.address(),
      reader.index().metadata,
      request_.is_eval_only ? CheckpointUse::kEvaluate : CheckpointUse::kResume);
  if (warning.has_value()) {
    log_warning(*warning);
  }
}

const CheckpointMetadata& RunCheckpoints::metadata() {
  if (metadata_.has_value()) {
    return *metadata_;
  }
  CheckpointMetadata& metadata = metadata_.emplace();
  metadata.run = recipe_.name;
  metadata.kind = kFullCheckpoint;
  metadata.tenon = kVersion;
  metadata.torch = kTorchVersion;
  const std::string cpu = describe_cpu();
  metadata.machine = cpu.substr(cpu.find(", ") + 2);  // without the threads
  metadata.compute_threads = recipe_.compute_threads;
  metadata.precision = recipe_.train.precision;
  metadata.device = context_.platform.device_type();
  for (const LoadedPlugin* plugin : loaded_plugins()) {
    const PluginContext& context = plugin->host.context();
    metadata.plugins.push_back(
        {context.id, context.version, content_hash(context.file).value_or("")});
  }
  return metadata;
}

}  // namespace tenon
