// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_checkpoints.hpp"

#include "host/checkpoint/checkpoint_order.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/device/device.hpp"
#include "host/distributed/failures/failed_run.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/error.hpp"
#include "host/io/content_hash.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/recipe/component_options.hpp"
#include "host/recipe/plugin_difference.hpp"
#include "host/train/resume/attempt_folder.hpp"
#include "host/train/resume/checkpoint_storage.hpp"
#include "host/train/resume/last_checkpoint.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/resume/unsaved_run.hpp"
#include "host/train/run/run_kernels.hpp"
#include "host/train/run/run_sources.hpp"

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

std::string absolute_path(const std::string& path) {
  std::error_code ignored;
  return path.empty() ? "" : std::filesystem::absolute(path, ignored).lexically_normal().string();
}

// Of an evaluation, only what the model is made of must be that of the checkpoint.
constexpr const char* kOfModel[] = {"/model", "/models", "/tables", "/optimizer", "/features"};

constexpr const char* kEval[] = {"/data/eval"};

// True if evaluations of the run are compared with earlier ones, on the same data.
bool compares_evaluations(const Recipe& recipe) {
  return recipe.eval.keep_best.has_value() ||
         (recipe.checkpoint.has_value() && recipe.checkpoint->keep_best.has_value()) ||
         std::ranges::any_of(
             recipe.hooks, [](const ComponentUse& hook) { return named_metric(hook).has_value(); });
}

// Another process has changed the folder between a look at it and its lock.
[[noreturn]] void fail_changed(const std::string& path) {
  throw Error("run.dir_exists",
              "the run folder " + path + " was changed just now; start the run again");
}

void warn_of_other_results(const CheckpointMetadata& then, const CheckpointMetadata& now) {
  const auto differs = [](const char* what, const std::string& was, const std::string& is) {
    if (was != is) {
      log_warning(std::string(what) + " was " + was + ", and is " + is +
                  ": the run resumes, but results may differ in their last bits");
    }
  };
  differs("libtorch", then.torch, now.torch);
  differs("the machine", then.machine, now.machine);
  if (!then.processor.empty()) {
    differs("the processor", then.processor, now.processor);
  }
}

}  // namespace

RunCheckpoints::RunCheckpoints(const RunContext& context, std::optional<RunLock>& lock)
    : context_(context),
      recipe_(context.recipe),
      request_(context.request),
      world_(context.world),
      ranks_(context.ranks),
      lock_(lock) {}

// Returns the run folder from before a launcher restarted the ranks; "" if there was none. A folder
// that another user could have named is never used.
// Errors  distributed.unauthenticated
std::string RunCheckpoints::earlier_folder() {
  const uint32_t num_restarts = world_.restart();
  const RankEnvironment& ranks = request_.ranks;
  if (num_restarts == 0 || !request_.run_dir.empty()) {
    return num_restarts == 0 ? "" : request_.run_dir;
  }
  if (ranks.launcher == "launch") {
    return ranks.run_folder;
  }
  if (is_store_of_agent(ranks) && ranks.secret.empty()) {
    throw Error(
        "distributed.unauthenticated",
        "the ranks were restarted, but any user can write to the agent's store, which names "
        "their run folder; pass --run-dir, or set TENON_RUN_SECRET_FILE on all ranks "
        "(docs/security.md)");
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

bool RunCheckpoints::has_checkpoints(const std::string& run_dir) {
  RunFolder::check(run_dir);
  return !storage_at(run_dir)->list().empty();
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

// True if the run may use the folder at `path` of an earlier attempt: of an earlier start of these
// ranks, of a run that was lost before its first checkpoint, or of one that recorded a checkpoint.
bool RunCheckpoints::has_attempt(const std::string& path, bool is_restart) const {
  if (path.empty() || !is_run_of(path, recipe_.name)) {
    return false;
  }
  const ResumeFrom from = request_.resume.from;
  const bool is_same_beginning = !recorded_.is_empty() && recorded_ == beginning_;
  const bool is_new_run =
      request_.is_eval_only || ((from == ResumeFrom::kPath || !request_.weights.format.empty()) &&
                                !(is_same_beginning && !last_checkpoint_of(path).has_value()));
  if (last_checkpoint_of(path).has_value()) {
    return is_restart || from == ResumeFrom::kAuto || !is_new_run;
  }
  return is_restart || (!is_new_run && (recipe_.checkpoint.has_value() || is_same_beginning) &&
                        is_unsaved_run(path, recipe_.name));
}

// Decides what a start without a checkpoint of its own begins with: what the command line gives,
// or what the lost attempt in the folder began with.
// Errors  run.import_lost: the command line has no import to repeat
void RunCheckpoints::choose_beginning(const std::string& path) {
  if (request_.is_eval_only) {
    beginning_.tables_from = request_.tables.import_from;
    return;
  }
  beginning_ = {.import_from = absolute_path(request_.weights.from),
                .resumed_from = request_.resume.from == ResumeFrom::kPath
                                    ? absolute_path(request_.resume.path)
                                    : "",
                .tables_from = absolute_path(request_.tables.import_from)};
  if (path.empty() || last_checkpoint_of(path).has_value()) {
    return;
  }
  recorded_ = request_.resume.from == ResumeFrom::kNone && request_.weights.format.empty() &&
                      beginning_.is_empty()
                  ? RunBeginning()
                  : beginning_of(path);
  if (recorded_.is_empty() || !beginning_.is_empty()) {
    return;
  }
  if (!recorded_.import_from.empty()) {
    throw Error("run.import_lost",
                "the run folder " + path + " is that of an import (" + recorded_.options() +
                    ") that ended before it saved a checkpoint; repeat the import with " +
                    recorded_.options() + " --run-dir " + path +
                    ", or start over from random weights with --resume none");
  }
  beginning_ = recorded_;
  log_info("beginning again with " + recorded_.options());
}

void RunCheckpoints::write_beginning(const RunFolder& folder) const {
  if (!request_.is_eval_only) {
    tenon::write_beginning(folder.path(), beginning_);
  }
}

// Opens the folder whose storage has checkpoints, and lists them. A storage plugin may have
// checkpoints of a run whose folder is elsewhere.
RunFolder RunCheckpoints::resume_in(const std::string& path, const RunFolder::Claim& claim) {
  std::error_code ignored;
  std::optional<RunFolder> folder;
  if (std::filesystem::exists(path + "/recipe.json", ignored)) {
    claim(path);
    folder = RunFolder::reopen(path);
  } else {
    folder = RunFolder::create(path, recipe_.name, claim);
  }
  CheckpointOrder order = checkpoint_order(storage_at(path));
  std::ranges::for_each(order.warnings, log_warning);
  to_try_ = std::move(order.checkpoints);
  std::ranges::reverse(to_try_);
  if (to_try_.empty()) {
    fail_changed(path);
  }
  if (!last_checkpoint_of(path).has_value()) {
    write_last_checkpoint(path, storage_at(path)->address(to_try_.front()));
  }
  return *folder;
}

// Opens the folder of an attempt that left no checkpoint, or whose checkpoints --resume none gives
// up, and puts its files aside.
RunFolder RunCheckpoints::start_over_in(const std::string& path, bool is_restart) {
  claim_folder(path);
  const bool may_resume = is_restart || request_.resume.from == ResumeFrom::kAuto;
  // Another process may have written here before the lock was taken.
  if (may_resume && has_checkpoints(path)) {
    return resume_in(path, [](const std::string&) {});
  }
  if (const auto recorded = last_checkpoint_of(path); may_resume && recorded.has_value()) {
    throw Error("resume.checkpoints_gone",
                "the run in " + path + " has saved " +
                    (recorded->empty() ? "a checkpoint" : *recorded) +
                    ", but its storage has no checkpoint now; mount or restore the checkpoints, "
                    "pass another --run-dir, or start over with --resume none");
  }
  if (!has_attempt(path, is_restart) || has_checkpoints(path)) {
    fail_changed(path);
  }
  const bool is_unsaved = !last_checkpoint_of(path).has_value();
  const std::string attempt = put_attempt_aside(path);
  log_info((is_unsaved ? "the run in " + path + " ended before its first checkpoint; starting over"
                       : "starting over in " + path) +
           (attempt.empty() ? "" : "; the files of the earlier attempt are in " + attempt));
  return RunFolder::reopen(path);
}

RunFolder RunCheckpoints::make_folder() {
  const auto claim = [this](const std::string& path) { claim_folder(path); };
  const std::string earlier = earlier_folder();
  const bool is_restart = !earlier.empty();
  const bool is_auto = request_.resume.from == ResumeFrom::kAuto;
  std::string path = is_restart ? earlier : request_.run_dir;
  if (path.empty() && is_auto) {
    path =
        newest_run(recipe_.name, [this](const std::string& run) { return has_checkpoints(run); });
    if (path.empty()) {
      log_info("no run named " + recipe_.name + " has a checkpoint; starting over");
    }
  }
  const bool may_resume = is_auto || is_restart;
  if (may_resume && !path.empty() && has_checkpoints(path)) {
    return resume_in(path, claim);
  }
  choose_beginning(path);
  if (has_attempt(path, is_restart) && (may_resume || !has_checkpoints(path))) {
    return start_over_in(path, is_restart);
  }
  return RunFolder::create(request_.run_dir, recipe_.name, claim);
}

ResumeCandidates* RunCheckpoints::find(const RunFolder& folder) {
  // Restarted ranks resume from checkpoints of this run, not from --resume PATH.
  const bool has_own =
      !ranks_.all()
           .broadcast_text(
               to_try_.empty() ? "" : to_try_.front(), 0, "newest checkpoint of the run folder")
           .empty();
  // A run that starts over begins with what its lost attempt began with, as rank 0 has read.
  beginning_.tables_from =
      ranks_.all().broadcast_text(has_own ? "" : beginning_.tables_from, 0, "folder of table rows");
  beginning_.resumed_from = ranks_.all().broadcast_text(
      request_.resume.from == ResumeFrom::kPath ? request_.resume.path : beginning_.resumed_from,
      0,
      "checkpoint to resume from");
  if (!beginning_.resumed_from.empty() && !has_own) {
    const std::string& from = beginning_.resumed_from;
    NamedCheckpoints named = find_checkpoints(context_.factory, storage_use(), from);
    if (is_first()) {
      std::ranges::for_each(named.warnings, log_warning);
    }
    std::ranges::reverse(named.checkpoints);
    saved_.emplace(std::move(named.storage),
                   ranks_.all(),
                   std::move(named.checkpoints),
                   [this](const CheckpointReader& reader) {
                     check_changes(reader);
                     warn_of_missing_training(reader, beginning_.resumed_from);
                   });
  } else {
    saved_.emplace(storage_at(folder.path()),
                   ranks_.all(),
                   to_try_,
                   [this, &folder](const CheckpointReader& reader) {
                     check_changes(reader);
                     warn_of_missing_training(reader, folder.path());
                     earlier_names_.insert(reader.index().metadata.run);
                     if (is_first() && !request_.is_eval_only) {
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
  if (const std::string& kind = reader.index().metadata.kind;
      kind != kFullCheckpoint && !request_.is_eval_only) {
    throw Error(
        "resume.only_weights",
        reader.address() +
            " has only parameters, which are not enough to resume; name a checkpoint in the "
            "\"checkpoints\" folder of a run");
  }
  auto changes = recipe_changes({reader.recipe(), reader.index().num_ranks()},
                                {frozen_recipe(recipe_), int64_t{ranks_.role().num_ranks()}});
  if (request_.is_eval_only) {  // data, losses and metrics are those of now
    std::erase_if(changes, [](const RecipeChange& change) {
      return !has_change_at(std::span(&change, 1), kOfModel);
    });
  }
  refuse_changes(changes, reader.address());
  check_sources(reader, changes);
  std::vector<RecipeChange> told;
  std::ranges::copy_if(changes, std::back_inserter(told), [](const RecipeChange& change) {
    return change.change == ChangeClass::kWarns;
  });
  const CheckpointMetadata& now = metadata();
  const CheckpointMetadata& then = reader.index().metadata;
  const auto plugins = plugin_changes(used_plugins(then), used_plugins(now));
  refuse_changes(plugins, reader.address());
  if (then.processor == now.processor && then.machine == now.machine && then.torch == now.torch) {
    restore_kernel_answers(then.kernels);
  }
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
  warn_of_other_results(then, now);
  if (recipe_.train.clip_grad_norm.has_value() && then.norm_version != now.norm_version &&
      !request_.is_eval_only) {
    log_warning(
        "another release saved " + reader.address() +
        ", which summed gradient norms in another order: the run resumes, but steps that clip may "
        "differ in their last bits from those of that release");
  }
}

// Other evaluation data matters only if evaluations are compared, and the recipe does not name it.
// An evaluation of a checkpoint reads the data that the recipe names now.
// Errors  data.changed
void RunCheckpoints::check_sources(const CheckpointReader& reader,
                                   std::span<const RecipeChange> changes) const {
  const auto& then = reader.index().metadata.sources;
  if (!sources_.has_value() || request_.is_eval_only) {
    return;
  }
  if (!then.has_value()) {
    if (is_first()) {
      log_info(
          reader.address() +
          " does not record the files of its data, so Tenon cannot check whether they changed");
    }
    return;
  }
  const bool is_other_eval_accepted =
      !compares_evaluations(recipe_) || has_change_at(changes, kEval);
  std::vector<SourceChange> refused;
  std::vector<SourceChange> accepted;
  for (SourceChange& change : source_changes(*then, *sources_)) {
    const bool is_accepted = is_other_eval_accepted && change.place.starts_with(kEval[0]);
    (is_accepted ? accepted : refused).push_back(std::move(change));
  }
  judge_changes(refused, reader.address(), recipe_.data.on_change, is_first());
  judge_changes(accepted, reader.address(), OnDataChange::kContinue, is_first());
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

bool RunCheckpoints::is_run(const std::string& name) const {
  return name == recipe_.name || earlier_names_.contains(name);
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
  metadata.machine = cpu_features();
  metadata.processor = cpu_model();
  metadata.compute_threads = recipe_.compute_threads;
  metadata.norm_version = kNormVersion;
  metadata.precision = recipe_.train.precision;
  metadata.device = context_.platform.device_type();
  metadata.sources = sources_;
  for (const LoadedPlugin* plugin : loaded_plugins()) {
    const PluginContext& context = plugin->host.context();
    metadata.plugins.push_back({context.id, context.version, plugin->hash});
  }
  return metadata;
}

}  // namespace tenon
