// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_session.hpp"

#include <tenon/tensor.h>

#include "host/device/block_cache.hpp"
#include "host/distributed/collectives/start_agreement.hpp"
#include "host/distributed/failures/early_failure.hpp"
#include "host/distributed/launch/rank_output.hpp"
#include "host/error/utf8.hpp"
#include "host/journal/attempt_number.hpp"
#include "host/journal/crash_page_reader.hpp"
#include "host/journal/logged_lines.hpp"
#include "host/log/log.hpp"
#include "host/metrics/progress.hpp"
#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/weights_layout_proxy.hpp"
#include "host/process/crash_report.hpp"
#include "host/tensor/handle_pool.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/resume/run_file.hpp"
#include "host/train/run/allocated_run.hpp"
#include "host/train/run/memory_check.hpp"
#include "host/train/run/next_commands.hpp"
#include "host/train/run/rank_records.hpp"
#include "host/train/run/run_fingerprint.hpp"
#include "host/train/run/run_kernels.hpp"
#include "host/train/run/run_sources.hpp"
#include "host/train/run/size_warnings.hpp"
#include "host/train/run/stored_outputs.hpp"
#include "host/train/run/stuck_run.hpp"
#include "host/train/run/table_files.hpp"
#include "host/train/run_plan/plan_run.hpp"
#include "host/train/same_data.hpp"
#include "host/train/trainer.hpp"
#include "host/train/weights/layout_map.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

WorldOptions world_options(const ParallelRecipe& recipe) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(std::llround(seconds * 1000));
  };
  return {.start_timeout = milliseconds(recipe.start_timeout_seconds),
          .timeout = milliseconds(recipe.timeout_seconds),
          .interface = recipe.interface,
          .check_collectives = recipe.check_collectives,
          .share_memory = recipe.share_memory};
}

WatchLimits watch_limits(const Recipe& recipe) {
  const auto seconds = [](const std::optional<double>& limit) {
    return limit.has_value() ? std::optional(std::chrono::duration<double>(*limit)) : std::nullopt;
  };
  return {.data = seconds(recipe.data.timeout_seconds),
          .other = seconds(recipe.plugin_timeout_seconds)};
}

RankEnvironment ranks_to_join(const RunRequest& request, RunSession::Purpose purpose) {
  return purpose == RunSession::Purpose::kTrain ? request.ranks : RankEnvironment();
}

RankEnd rank_end(const FailedEnd& end) {
  return {end.error.id(), end.error.what(), static_cast<int>(end.code)};
}

// Logs a failure that the loop has not reported, and returns its outcome.
Outcome outcome_of(const FailedEnd& end) {
  if (end.is_reported) {
    log_to_file(end.error.what());
  } else {
    log_error(end.error.what());
  }
  Outcome outcome;
  outcome.code = end.code;
  outcome.reason = end.error.what();
  outcome.error_id = end.error.id();
  return outcome;
}

// Returns a format that --export can write for this model.
const char* export_format(const ComponentInstance& model, const ModelGraph& graph) {
  try {
    if (!graph.parametrizations.empty()) {
      return "peft";
    }
    if (!WeightsLayoutProxy::of(model).has_value()) {
      return "torch";
    }
    layout_map_of(model, graph, "hf", TENON_F32);  // throws if its options do not fit the layout
    return "hf";
  } catch (const Error&) {  // an export reports the error
    return "torch";
  }
}

// Returns the number of tensors that each plugin holds. Instances may hold some until they are
// destroyed, but a number of the order of the steps is a leak.
std::map<std::string, int64_t> live_handles() {
  constexpr int64_t kMany = 1000;
  std::map<std::string, int64_t> counts;
  for (const auto& [holder, count] : HandlePool::get().num_live_by_holder()) {
    const std::string& id = plugin_of(holder).id;
    counts[id] = count;
    if (count >= kMany) {
      log_warning(
          formatted("{} holds {} tensors at the end of the run; release the handles that "
                    "functions return as `_own`",
                    id,
                    count));
    }
  }
  return counts;
}

std::vector<ReportedPlugin> reported_plugins() {
  std::vector<ReportedPlugin> plugins;
  for (const LoadedPlugin* const plugin : loaded_plugins()) {
    const PluginContext& context = plugin->host.context();
    plugins.push_back({context.id, context.version, as_utf8(context.file), plugin->hash});
  }
  return plugins;
}

// A run that is killed leaves no summary.
void log_plugins(const std::vector<ReportedPlugin>& plugins) {
  for (const ReportedPlugin& plugin : plugins) {
    log_to_file(
        formatted("plugin {} {}, {}, {}", plugin.id, plugin.version, plugin.file, plugin.hash));
  }
}

void write_summary(const RunFolder& folder,
                   const std::string& name,
                   const RunReport& report,
                   Outcome& outcome) {
  try {
    folder.write(name, summary_json(report, outcome));
  } catch (const Error& error) {  // a run without a summary looks unfinished
    log_error(error.what());
    if (outcome.code == ExitCode::kDone) {
      outcome.code = ExitCode::kFailed;
      outcome.reason = error.what();
      outcome.error_id = error.id();
    }
  }
}

}  // namespace

RunSession::RunSession(const Recipe& recipe,
                       PluginRegistry& registry,
                       Process& process,
                       const RunRequest& request,
                       Purpose purpose)
    : recipe_(recipe),
      process_(process),
      request_(request),
      platform_(recipe, process, request, purpose),
      watchdog_(watch_limits(recipe), [this](const StuckCall& call) { end_stuck(call); }),
      world_(World::join(ranks_to_join(request, purpose), world_options(recipe.parallel))),
      ranks_(*world_, platform_.role()),
      watch_(*world_, process, request.ranks, world_options(recipe.parallel), published_),
      factory_(registry, recipe, platform_.mesh_view()),
      context_{recipe, request, platform_, *world_, ranks_, factory_},
      checkpoints_(context_, lock_),
      plan_context_(context_.for_plans()) {}

// ---- before training ----

void RunSession::check() {
  platform_.set_up_process(recipe_);
  plan_ = plan_run(plan_context_, request_);
  warn_of_sizes(*plan_);
}

void RunSession::check_with_all() {
  Group& control = ranks_.all();
  together(control, "errors so far", [] {});  // see fail_with_others()
  together(control, "comparison of the ranks", [&] {
    agree_on_metadata(control, run_fingerprint(recipe_, platform_.device()));
  });
  together(control, "check of the recipe", [this] { check(); });
  // A barrier: each rank reads how much memory is available before any rank allocates.
  together(control, "check of the memory", [this] { check_memory(context_, *plan_); });
  together(
      control, "check of the data", [&] { check_same_sources(plan_->data.sources(), control); });
  record_sources();
}

// For checkpoints, and for the comparison with the checkpoint that the run resumes from.
void RunSession::record_sources() {
  Group& control = ranks_.all();
  std::vector<ListedSource> listed;
  together(control, "list of the data's files", [&] { listed = list_sources(*plan_); });
  together(control, "hashes of the data's files", [&] {
    checkpoints_.use_sources(agree_on_sources(listed, control));
  });
}

void RunSession::leave(const SharedFailure& failure) {
  note_lone_failure(*world_, failure);
  watch_.expect_end();
  try {
    world_->leave();
  } catch (const Error& error) {  // the failure is reported already
    log_to_file(error.what());
  }
}

FailedEnd RunSession::fail(const Error& error) {
  const FailedEnd end = watch_.fail(error);
  watch_.conclude(rank_end(end));
  return end;
}

// Leaves `run_dir` empty, because the run folder does not exist yet.
RunReport RunSession::make_report() {
  RunReport report{recipe_,
                   kVersion,
                   kTorchVersion,
                   platform_.description(),
                   "",
                   request_.command_line,
                   platform_.role(),
                   plan_->model.graph.num_elements(),
                   plan_->reported(),
                   {},
                   {},
                   reported_plugins()};
  return report;
}

// On rank 0. Claims the number of this start. A resumed run keeps its recipe.json until a
// checkpoint is accepted.
RunFolder RunSession::make_first_folder(int64_t& attempt) {
  RunFolder folder = checkpoints_.make_folder();
  folder.discard_unless([&] {
    attach_log_file(folder.file("log.txt"));
    RankRecords(folder.path()).put_aside();
    if (!checkpoints_.has_some()) {
      checkpoints_.write_beginning(folder);
      folder.write("recipe.json", frozen_recipe(recipe_));
    }
    attempt = static_cast<int64_t>(claim_attempt(folder.path()));
  });
  return folder;
}

// Rank 0 makes and names the run folder; the other ranks write their logs to it.
RunFolder RunSession::open_folder() {
  Group& control = ranks_.all();
  std::optional<RunFolder> folder;
  int64_t attempt = 0;
  together(control, "making the run folder", [&] {
    if (is_first()) {
      folder = make_first_folder(attempt);
    }
  });
  const std::string path =
      control.broadcast_text(is_first() ? folder->full_path() : "", 0, "name of the run folder");
  control.all_reduce(std::span(&attempt, 1), Reduce::kMax, "number of the attempt");
  journal_.emplace(static_cast<uint64_t>(attempt), platform_.role().rank());
  const auto join = [&] {
    together(control, "logs in the run folder", [&] {
      if (is_first()) {
        return;
      }
      folder = RunFolder::join(path);
      const std::string log = folder->file(formatted("logs/rank-{}.txt", platform_.role().rank()));
      if (request_.ranks.launcher == "launch") {
        move_output_to(log);  // its terminal output is not shown
      } else {
        attach_log_file(log);
      }
    });
  };
  if (is_first()) {
    folder->discard_unless(join);
  } else {
    join();
  }
  return *folder;
}

// ---- training ----

// Ensures that a run that ends early from now on leaves a summary, whichever thread ends it.
void RunSession::watch_folder(const RunFolder& folder, const RunReport& report) {
  const auto write_end = [this, &folder, &report](Outcome ended) {
    ended.state = published_.get();
    ended.seconds = seconds();
    if (!folder_problem(folder).empty()) {
      return;
    }
    try {
      folder.write(summary_name(), summary_json(report, ended));
      dismiss_witness();
    } catch (const Error& failure) {
      log_warning(failure.what());
    }
  };
  const auto write_early_end = [write_end](const Error& error, int code) {
    Outcome ended;
    ended.code = static_cast<ExitCode>(code);
    ended.reason = error.what();
    ended.error_id = error.id();
    write_end(std::move(ended));
  };
  const auto write_stop = [this, write_end](const std::string& reason) {
    if (is_first() && checkpoints_.has_some()) {
      dismiss_witness();  // the summary of the earlier command still holds: nothing was trained
    } else if (is_first()) {
      Outcome ended;
      ended.code = ExitCode::kStopped;
      ended.reason = reason;
      write_end(std::move(ended));
    }
  };
  if (RunWitness* const witness = process_.witness(); witness != nullptr && is_first()) {
    witness->expect({.file = folder.full_path() + "/" + summary_name(),
                     .text = summary_json(report, {}),
                     .lock = folder.full_path() + "/" + RunLock::kFile,
                     .owner = lock_.has_value() ? lock_->name() : ""});
  }
  watch_.use_folder(folder.path(), write_early_end);
  const auto write_stuck = [this, write_early_end](const Error& error, int code) {
    const FailedEnd end = fail(error);
    if (watch_.writes_summary()) {
      write_early_end(error, code);
    }
    return end.is_reported;
  };
  tell_stuck_to(write_stuck, write_stop);
}

Outcome RunSession::train(const SignalWatch& signals) {
  process_.report_crashes_of(platform_.role().rank(), platform_.role().num_ranks());
  RunReport report = make_report();
  const RunFolder folder = open_folder();
  report.run_dir = folder.path();
  watch_folder(folder, report);
  Progress progress(is_first() ? request_.style : Progress::Style::kQuiet);
  Journal& journal = *journal_;
  CrashPageReader page(crash_page());
  const auto page_reads = journal.subscribe_prompt(page, "crash page");
  const auto state_reads = journal.subscribe(published_, "state for other threads");
  const auto progress_reads = journal.subscribe(progress, "progress line");
  const LoggedLines lines(journal);
  watch_.use_journal(journal);
  journal.add(RunStarted{.folder = folder.path(), .header = header_text(report)});
  if (is_first()) {
    log_plugins(report.plugins);
  }
  if (!platform_.warning().empty()) {
    log_warning(platform_.warning());
  }
  Outcome outcome = run_loop(folder, signals);
  tell_stuck_to(nullptr);
  if (outcome.error_id.empty()) {
    leave_in_order(outcome);
  }
  if (!outcome.error_id.empty()) {
    watch_.conclude({outcome.error_id, outcome.reason, static_cast<int>(outcome.code)});
  }
  watch_.forget_writer();
  report.device_waits = platform_.waits_by_plugin();
  report.live_handles = live_handles();
  const bool has_saved = outcome.saves.has_value() && outcome.saves->committed > 0;
  if (leaves_folder(outcome.code) || published_.has_begun() || has_saved) {
    report_end(folder, report, outcome);
  } else if (is_first()) {  // the error is reported, and no work was done
    folder.discard();
  }
  dismiss_witness();
  return outcome;
}

// Decides whether the run ends before it allocates memory. A run that resumes first loads its
// state, which its summary reports; an import saves what it has read. Called by every rank.
bool RunSession::is_stopped_already(const SignalWatch& signals) {
  Group& control = ranks_.all();
  return request_.weights.format.empty() && any_rank(control, signals.received() != 0) &&
         !any_rank(control, is_first() && checkpoints_.has_some());
}

Outcome RunSession::stopped_outcome(const SignalWatch& signals) {
  const int signal = signals.received();
  Outcome outcome;
  outcome.code = ExitCode::kStopped;
  outcome.reason = first_text(
      ranks_.all(), signal != 0 ? std::string("received ") + SignalWatch::name(signal) : "");
  outcome.seconds = seconds();
  return outcome;
}

// The session, as the loop sees it.
class RunSession::LoopOwner final : public RunOwner {
 public:
  LoopOwner(RunSession& session, const RunFolder& folder) : session_(session), folder_(folder) {}

  FailedEnd fail(const Error& error) override { return session_.watch_.fail(error); }
  void end_first_step() override {
    if (session_.is_first() && !kernel_answers().empty()) {
      folder_.write("kernels.json", kernel_answers_text());
    }
    session_.world_->end_start();
    session_.watch_.end_start();
  }
  std::string folder_problem() override { return session_.folder_problem(folder_); }

 private:
  RunSession& session_;
  const RunFolder& folder_;
};

Outcome RunSession::allocate_and_run(const RunFolder& folder, const SignalWatch& signals) {
  if (is_stopped_already(signals)) {
    return stopped_outcome(signals);
  }
  std::optional<StoredFingerprints> outputs = StoredFingerprints();
  if (!plan_->imports_only()) {
    outputs = store_outputs(context_, *plan_, signals);
  }
  if (!outputs.has_value()) {
    return stopped_outcome(signals);
  }
  LoopOwner owner(*this, folder);
  AllocatedRun run({.context = context_,
                    .checkpoints = checkpoints_,
                    .folder = folder,
                    .journal = *journal_,
                    .signals = signals,
                    .owner = owner},
                   *plan_,
                   *outputs);
  ModelServices& model = run.services().model;
  Outcome outcome = Trainer(run.services()).run();
  outcome.traffic = world_->traffic();
  outcome.peak_tensor_bytes = cpu_tensor_memory().peak_bytes;
  if (outcome.error_id.empty() || world_->size() == 1) {
    outcome.parameters_hash = model.parameters.hash(
        [&model](FlatGroup& group) { return model.sharded.gather_stored(group); });
  }
  if (!request_.tables.export_to.empty() && outcome.error_id.empty()) {
    export_rows(model);
  }
  return outcome;
}

void RunSession::export_rows(ModelServices& model) {
  const TableFolders& tables = request_.tables;
  together(ranks_.all(), "export of tables", [&] {
    export_tables(*model.tables,
                  tables.export_to,
                  tables.has_slots ? RowParts::kAll : RowParts::kValues,
                  ranks_.rows().rank(),
                  ranks_.rows().size());
  });
}

Outcome RunSession::run_loop(const RunFolder& folder, const SignalWatch& signals) {
  try {
    return allocate_and_run(folder, signals);
  } catch (const std::exception& error) {  // outside the loop, after the folder was made
    return outcome_of(watch_.fail(run_failure(error)));
  }
}

// Losing a rank here is a failure, because that rank has not finished its part of the run.
void RunSession::leave_in_order(Outcome& outcome) {
  watch_.expect_end();
  try {
    world_->leave();
  } catch (const Error& error) {
    const Outcome failed = outcome_of(watch_.fail(error));
    outcome.code = failed.code;
    outcome.reason = failed.reason;
    outcome.error_id = failed.error_id;
  }
}

// On the rank that locks the folder. Another run may use the folder now.
std::string RunSession::folder_problem(const RunFolder& folder) const {
  const std::string lost = lock_.has_value() ? lock_->lost() : "";
  return lost.empty()
             ? ""
             : formatted(
                   "the run folder {} is no longer that of this run: {}", folder.path(), lost);
}

// A run whose folder was lost must not change the summary of another run.
bool RunSession::may_write_summary(const RunFolder& folder, Outcome& outcome) const {
  const std::string problem = folder_problem(folder);
  if (problem.empty() || !outcome.error_id.empty()) {
    return problem.empty();
  }
  const Error error("run.dir_lost", problem + "; the summary is not written");
  log_error(error.what());
  outcome.code = ExitCode::kFailed;
  outcome.reason = error.what();
  outcome.error_id = error.id();
  return false;
}

void RunSession::report_end(const RunFolder& folder, const RunReport& report, Outcome& outcome) {
  const bool is_written =
      outcome.keeps_summary && !read_run_json(folder.file("summary.json")).is_null();
  if (watch_.writes_summary() && !is_written && may_write_summary(folder, outcome)) {
    write_summary(folder, summary_name(), report, outcome);
  }
  const std::string commands =
      next_commands(recipe_,
                    request_,
                    outcome,
                    folder.path(),
                    export_format(plan_->model.trained().instance(), plan_->model.trained_graph()));
  journal_->add(RunEnded{.outcome = outcome.word(),
                         .reason = outcome.reason,
                         .error_id = outcome.error_id,
                         .exit_code = static_cast<int>(outcome.code),
                         .line = last_line(report, outcome),
                         .commands = is_first() ? commands : ""});
  flush_log();
}

// An evaluation in the folder of a training run leaves that run's summary alone.
std::string RunSession::summary_name() const {
  return request_.is_eval_only && checkpoints_.has_some() ? "evaluation.json" : "summary.json";
}

// The summary is written.
void RunSession::dismiss_witness() {
  if (RunWitness* const witness = process_.witness()) {
    witness->dismiss();
  }
}

double RunSession::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

// ---- plugins that do not return ----

// On the watchdog's thread.
void RunSession::end_stuck(const StuckCall& call) {
  const std::lock_guard lock(stuck_mutex_);
  end_stuck_run(process_, call, published_, write_stuck_summary_);
}

void RunSession::tell_stuck_to(StuckWriter writer,
                               std::function<void(const std::string&)> write_stop) {
  const std::lock_guard lock(stuck_mutex_);
  write_stuck_summary_ = std::move(writer);
  write_stop_summary_ = std::move(write_stop);
}

// On the thread of signals. Other threads are still running.
void RunSession::end_start(const std::string& reason) {
  const std::lock_guard lock(stuck_mutex_);
  constexpr unsigned kSecondsToWrite = 1;
  constexpr int kCode = static_cast<int>(ExitCode::kStopped);
  const std::string line = "stopped " + activity() + ": " + reason;
  process_.end_after_grace(line, kCode, kSecondsToWrite);
  if (write_stop_summary_) {
    write_stop_summary_(reason);
  }
  log_info(line);
  flush_log();
  process_.end(kCode);
}

}  // namespace tenon
