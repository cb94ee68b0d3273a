// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_training.hpp"

#include "host/checkpoint/run_lock.hpp"
#include "host/data/stream_plan.hpp"
#include "host/device/block_cache.hpp"
#include "host/device/compute_device.hpp"
#include "host/device/device.hpp"
#include "host/device/host_memory.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/early_failure.hpp"
#include "host/distributed/mesh.hpp"
#include "host/distributed/rank_output.hpp"
#include "host/distributed/start_agreement.hpp"
#include "host/distributed/together.hpp"
#include "host/distributed/world.hpp"
#include "host/embedding/row_exchange.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/plugin/crash_report.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/watchdog.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/staging_memory.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/train/best_state.hpp"
#include "host/train/checkpoint_storage.hpp"
#include "host/train/checkpointing.hpp"
#include "host/train/component_factory.hpp"
#include "host/train/exports.hpp"
#include "host/train/left_out.hpp"
#include "host/train/model_bank.hpp"
#include "host/train/optimizer_groups.hpp"
#include "host/train/plugin_waits.hpp"
#include "host/train/published_state.hpp"
#include "host/train/rank_groups.hpp"
#include "host/train/rank_records.hpp"
#include "host/train/rank_watch.hpp"
#include "host/train/recipe_model.hpp"
#include "host/train/recipe_tables.hpp"
#include "host/train/run_checkpoints.hpp"
#include "host/train/run_dataset.hpp"
#include "host/train/run_facts.hpp"
#include "host/train/run_failure.hpp"
#include "host/train/run_report.hpp"
#include "host/train/same_data.hpp"
#include "host/train/stuck_run.hpp"
#include "host/train/table_files.hpp"
#include "host/train/table_rows.hpp"
#include "host/train/tiled_loss.hpp"
#include "host/train/trainer.hpp"
#include "host/train/weight_places.hpp"
#include "host/train/weights_import.hpp"

#include <c10/core/DefaultDtype.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <tenon_build.hpp>

namespace tenon {
namespace {

// That of one rank where nobody says how many there will be: a recipe for more is valid too.
Mesh mesh_of(const Recipe& recipe, const RankEnvironment& ranks, bool is_check) {
  if (is_check && ranks.launcher.empty()) {
    return Mesh();
  }
  return Mesh({.replicate = recipe.parallel.replicate, .shard = recipe.parallel.shard},
              ranks.world_size,
              ranks.rank);
}

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

// Ranks of one machine have a GPU each.
std::string device_name(const Recipe& recipe, const RankEnvironment& ranks) {
  const bool has_neighbours = ranks.local_world_size > 1 || ranks.slot > 0;  // or had them
  return recipe.device == "cuda" && has_neighbours ? "cuda:" + std::to_string(ranks.slot)
                                                   : recipe.device;
}

// Before the first operator and other threads: some settings are in the environment.
ComputeDevice open_run_device(const Recipe& recipe, const RunRequest& request) {
  if (recipe.deterministic) {
    choose_reproducible_math();
    choose_reproducible_gpu_math();
    set_deterministic(Deterministic::kYes);
  }
  return open_device(device_name(recipe, request.ranks), request.gpu);
}

// Process-wide settings, before the first operator.
void set_up_process(const Recipe& recipe, at::ScalarType dtype) {
  keep_freed_memory();
  use_block_cache();
  set_compute_threads(recipe.compute_threads);
  // Modules of the torch lane build their parameters in the default dtype, never in a narrow one:
  // narrow parameters start as the wide ones, rounded.
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
}

ReportedComponent reported(std::string role,
                           const ComponentInstance& instance,
                           std::string detail = "") {
  const PluginContext& plugin = instance.plugin();
  return {std::move(role), instance.type(), plugin.id + " " + plugin.version, std::move(detail)};
}

WatchLimits watch_limits(const Recipe& recipe) {
  const auto seconds = [](const std::optional<double>& limit) {
    return limit.has_value() ? std::optional(std::chrono::duration<double>(*limit)) : std::nullopt;
  };
  return {.data = seconds(recipe.data.timeout_seconds),
          .other = seconds(recipe.plugin_timeout_seconds)};
}

// Everything that a run consists of, in the order in which it comes to be. Destroyed the other way
// round.
class Run {
 public:
  enum class Purpose { kCheck, kTrain };

  // Joins the other ranks, unless it is for a check alone.
  Run(const Recipe& recipe, PluginRegistry& registry, const RunRequest& request, Purpose purpose)
      : recipe_(recipe),
        request_(request),
        mesh_(mesh_of(recipe, request.ranks, purpose == Purpose::kCheck)),
        mesh_view_(mesh_.view()),
        device_(open_run_device(recipe, request)),
        precision_(precision_policy(recipe.train.precision,
                                    device_.gpu != nullptr ? ComputesOn::kGpu : ComputesOn::kCpu)),
        watchdog_(watch_limits(recipe), [this](const StuckCall& call) { end_stuck(call); }),
        world_(World::join(purpose == Purpose::kTrain ? request.ranks : RankEnvironment(),
                           world_options(recipe.parallel))),
        factory_(registry, recipe, mesh_view_),
        checkpoints_(recipe,
                     request,
                     mesh_,
                     c10::DeviceTypeName(device_.torch.type(), true),
                     *world_,
                     factory_,
                     lock_) {
    exec_.seed = mix_seeds(recipe.seed, stream_of("exec"));
    if (device_.gpu != nullptr) {
      waits_.emplace(*device_.gpu);
      const MemoryPins pins = device_.gpu->memory_pins();
      use_staging_pins({pins.pin, pins.unpin});
      exec_.device = device_.torch;
      exec_.stream = device_.gpu->stream();
      exec_.waiting = &*waits_;
    }
    exec_.compute_dtype = precision_.compute;
    exec_.autocast_dtype = precision_.autocast;
    exec_.mesh = &mesh_view_;
    exec_.tensors = tensor_service();
    exec_.ops = op_service();
    watch_.emplace(*world_, request.ranks, world_options(recipe.parallel), published_);
  }

  // All ranks go on, or none does.
  void check_with_all() {
    together(world_->control(), "errors so far", [] {});  // see fail_with_others()
    together(world_->control(), "comparison of the ranks", [this] {
      agree_on_facts(world_->control(), run_facts(recipe_, device_.torch));
    });
    together(world_->control(), "check of the recipe", [this] { check(); });
    std::vector<DataSource*> sources = {&train_set_->source()};
    for (auto* const sets : {&eval_sets_, &test_sets_}) {
      for (RunDataset& set : *sets) {
        sources.push_back(&set.source());
      }
    }
    together(world_->control(), "check of the data", [&] {
      check_same_sources(sources, world_->control());
    });
  }

  // Ends the connections to other ranks, where all of them do so with the same failure.
  void leave(const SharedFailure& failure) {
    note_lone_failure(*world_, failure);
    watch_->expect_end();
    try {
      world_->leave();
    } catch (const Error& error) {  // what was to be told is told
      log_to_file(error.what());
    }
  }

  // What this rank ends with whose error is before the loop, and not shared by all.
  FailedEnd fail(const Error& error) {
    const FailedEnd end = watch_->fail(error);
    watch_->conclude(rank_end(end));
    return end;
  }

  // Creates the components and holds them against each other. Nothing of size is allocated.
  void check() {
    set_up_process(recipe_, precision_.exact());
    model_.emplace(factory_.create(recipe_.model.use, "model"));
    train_set_.emplace(
        factory_, recipe_.data.train, "data/train", data_seed(), recipe_.data.shuffle);
    const auto add_sets = [this](std::deque<RunDataset>& sets,
                                 const std::vector<EvalSetUse>& uses) {
      for (const EvalSetUse& set : uses) {
        const std::string place = "data/" + set.list + (set.name.empty() ? "" : "/" + set.name);
        sets.emplace_back(factory_, set.data, place, data_seed(), false);
      }
    };
    add_sets(eval_sets_, recipe_.data.eval);
    add_sets(test_sets_, recipe_.data.test);
    std::vector<NamedLoss> losses;
    for (size_t i = 0; i < recipe_.losses.size(); ++i) {
      const LossUse& use = recipe_.losses[i];
      losses.push_back({use.name,
                        use.weight,
                        use.inputs,
                        LossProxy(factory_.create(use.use, "losses/" + std::to_string(i)))});
      report_components_.push_back(reported("loss", losses.back().proxy.instance()));
    }
    std::vector<NamedMetric> metrics;
    for (size_t i = 0; i < recipe_.metrics.size(); ++i) {
      const MetricUse& use = recipe_.metrics[i];
      metrics.push_back({use.name,
                         use.inputs,
                         MetricProxy(factory_.create(use.use, "metrics/" + std::to_string(i)))});
      report_components_.push_back(reported("metric", metrics.back().proxy.instance()));
    }
    if (recipe_.lr_scheduler.has_value()) {
      scheduler_.emplace(factory_.create(*recipe_.lr_scheduler, "lr_scheduler"));
    }
    for (size_t i = 0; i < recipe_.hooks.size(); ++i) {
      hooks_.emplace_back(factory_.create(recipe_.hooks[i], "hooks/" + std::to_string(i)));
    }
    for (size_t i = 0; i < recipe_.sinks.size(); ++i) {
      sink_proxies_.emplace_back(factory_.create(recipe_.sinks[i], "sinks/" + std::to_string(i)));
    }
    graph_ = recipe_model(*model_, recipe_.model);
    if (!request_.weights.format.empty()) {
      weights_.emplace(model_->instance(), graph_, request_.weights);
    }
    table_plan_ = plan_tables(recipe_, graph_);
    check_table_files();
    plan_saves();
    losses_.emplace(std::move(losses), graph_, recipe_.model.name, exec_);
    metric_set_.emplace(std::move(metrics), graph_, recipe_.model.name, exec_);
    check_figure_names();
    check_fields(train_set_->source());
    for (auto* const sets : {&eval_sets_, &test_sets_}) {
      for (RunDataset& set : *sets) {
        check_fields(set.source());
      }
    }
    check_windows();
    for (size_t i = 0; i < table_plan_.tables.size(); ++i) {
      const PlannedTable& table = table_plan_.tables[i];
      tables_.push_back(
          {table.spec,
           SparseOptimizerProxy(factory_.create(table.optimizer, "tables/" + table.spec.name)),
           table.lr,
           table.clip_row_norm});
    }
    optimizer_plan_ = plan_optimizers(recipe_.optimizer, graph_);
    for (size_t i = 0; i < optimizer_plan_.partitions.size(); ++i) {
      const PlannedPartition& partition = optimizer_plan_.partitions[i];
      partitions_.push_back(
          {OptimizerProxy(factory_.create(partition.use, "optimizer/" + std::to_string(i))),
           partition.lr,
           partition.name,
           partition.match,
           partition.use.options});
    }
    std::vector<bool> needs_whole(graph_.parameters.size(), false);
    for (size_t p = 0; p < needs_whole.size(); ++p) {
      const OptimizedPartition& partition = partitions_[optimizer_plan_.partition_of[p]];
      needs_whole[p] = partition.optimizer.info().needs != TENON_OPTIMIZER_ELEMENTWISE;
    }
    unsharded_ = unsharded_parameters(recipe_.parallel, graph_, std::move(needs_whole));
    plan_ = plan_loop(recipe_,
                      *losses_,
                      hooks_,
                      scheduler_.has_value() ? &*scheduler_ : nullptr,
                      mesh_.world_size());
    if (recipe_.train.normalize == Normalize::kItems && !request_.is_eval_only) {
      losses_->check_additive(plan_.microbatches_per_step * mesh_.world_size());
    }
    if (recipe_.train.loss_tile.has_value()) {
      check_tiling(graph_, *losses_, *metric_set_, plan_.counts_ahead);
    }
  }

  Outcome train() {
    report_crashes();
    RunReport report = make_report();
    const RunFolder folder = open_folder();
    report.run_dir = folder.path();
    const auto write_early_end = [&](const Error& error, int code) {
      Outcome ended;
      ended.code = static_cast<ExitCode>(code);
      ended.reason = error.what();
      ended.error_id = error.id();
      ended.state = published_.get();
      ended.seconds = seconds_since(began_);
      try {
        folder.write("summary.json", summary_json(report, ended));
      } catch (const Error& failure) {
        log_warning(failure.what());
      }
    };
    watch_->use_folder(folder.path(), write_early_end);
    tell_stuck_to([&](const Error& error, int code) {
      const FailedEnd end = fail(error);
      if (watch_->writes_summary()) {
        write_early_end(error, code);
      }
      return end.is_told;
    });
    Progress progress(is_first() ? request_.style : Progress::Style::kQuiet);
    progress.say(header_text(report));
    if (!device_.warning.empty()) {
      log_warning(device_.warning);
    }
    Outcome outcome;
    try {
      outcome = run_loop(folder, progress);
    } catch (const std::exception& error) {  // before the loop could begin, but with a folder
      outcome = outcome_of(watch_->fail(run_failure(error)));
    }
    tell_stuck_to(nullptr);
    if (outcome.error_id.empty()) {
      leave_in_order(outcome);
    }
    if (!outcome.error_id.empty()) {
      watch_->conclude({outcome.error_id, outcome.reason, static_cast<int>(outcome.code)});
    }
    watch_->forget_writer();
    if (waits_.has_value()) {
      report.device_waits = waits_->by_plugin();
    }
    if (!leaves_folder(outcome.code)) {
      // As with what is found out before the folder is made: it was told, and nothing was done.
      if (is_first()) {
        folder.discard();
      }
      return outcome;
    }
    if (watch_->writes_summary()) {
      write_summary(folder, report, outcome);
    }
    const std::string line = last_line(report, outcome);
    progress.say(line);
    flush_log();
    return outcome;
  }

 private:
  bool is_first() const { return mesh_.rank() == 0; }

  // Rank 0 makes and names it, the others keep their logs in it.
  RunFolder open_folder() {
    Collective& control = world_->control();
    std::optional<RunFolder> folder;
    together(control, "making the run folder", [&] {
      if (is_first()) {
        folder = checkpoints_.make_folder();
        folder->discard_unless([&] {
          attach_log_file(folder->file("log.txt"));
          RankRecords(folder->path()).put_aside();
          if (!checkpoints_
                   .has_some()) {  // else that of before stays until the run goes on with this one
            folder->write("recipe.json", frozen_recipe(recipe_));
          }
        });
      }
    });
    const std::string path =
        control.broadcast_text(is_first() ? folder->full_path() : "", 0, "name of the run folder");
    const auto join = [&] {
      together(control, "logs in the run folder", [&] {
        if (!is_first()) {
          folder = RunFolder::join(path);
          const std::string log =
              folder->file("logs/rank-" + std::to_string(mesh_.rank()) + ".txt");
          if (request_.ranks.launcher == "launch") {
            move_output_to(log);  // nobody looks at its terminal
          } else {
            attach_log_file(log);
          }
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

  // A rank that is lost now, at the end, is one whose part of the run was not finished.
  void leave_in_order(Outcome& outcome) {
    watch_->expect_end();
    try {
      world_->leave();
    } catch (const Error& error) {
      const Outcome failed = outcome_of(watch_->fail(error));
      outcome.code = failed.code;
      outcome.reason = failed.reason;
      outcome.error_id = failed.error_id;
    }
  }

  static RankEnd rank_end(const FailedEnd& end) {
    return {end.error.id(), end.error.what(), static_cast<int>(end.code)};
  }

  // Of a failure that no loop has told.
  static Outcome outcome_of(const FailedEnd& end) {
    if (end.is_told) {
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

  static void write_summary(const RunFolder& folder, const RunReport& report, Outcome& outcome) {
    try {
      folder.write("summary.json", summary_json(report, outcome));
    } catch (const Error& error) {  // whoever reads it would take the run for one that never ended
      log_error(error.what());
      if (outcome.code == ExitCode::kDone) {
        outcome.code = ExitCode::kFailed;
        outcome.reason = error.what();
        outcome.error_id = error.id();
      }
    }
  }

  using StuckWriter = std::function<bool(const Error& error, int code)>;

  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // On the watchdog's thread.
  [[noreturn]] void end_stuck(const StuckCall& call) {
    const std::lock_guard lock(stuck_mutex_);
    end_stuck_run(call, published_.get(), write_stuck_summary_);
  }

  void tell_stuck_to(StuckWriter writer) {
    const std::lock_guard lock(stuck_mutex_);
    write_stuck_summary_ = std::move(writer);
  }

  // What the recipe or the model has asked not to train.
  std::string frozen_text() const {
    const int64_t frozen = graph_.num_frozen_elements();
    return frozen > 0 ? ", " + grouped_digits(frozen) + " of them frozen" : "";
  }

  // Figures are first written when training has begun, those of an evaluation long after.
  void check_figure_names() const {
    std::vector<std::string> names = metric_set_->training_figures();
    std::vector<std::string> prefixes = {""};
    const auto add_prefix = [&](const std::string& prefix, const char* suffix) {
      prefixes.push_back(prefix);
      for (const std::string& name : metric_set_->evaluation_figures()) {
        names.push_back(prefix + name + suffix);
      }
    };
    for (const EvalSetUse& set : recipe_.data.eval) {
      add_prefix(eval_prefix(set), recipe_.eval.with_window != WithWindow::kNever ? "/run" : "");
    }
    for (const EvalSetUse& set : recipe_.data.test) {
      add_prefix(eval_prefix(set), "");
    }
    if (recipe_.eval.next_window) {
      add_prefix("next/", "/run");
    }
    const bool has_names = losses_->size() > 1 || losses_->weight(0) != 1;
    for (const std::string& prefix : prefixes) {
      for (size_t i = 0; has_names && i < losses_->size(); ++i) {
        names.push_back(prefix + "loss/" + losses_->name(i));
      }
    }
    for (const std::string& name : names) {
      if (!is_legal_metric_name(name)) {
        throw Error("recipe.out_of_range",
                    "the figure '" + name + "' would have a name of " +
                        std::to_string(name.size()) +
                        " characters, and 100 is the most; give the loss, the metric or the "
                        "evaluation set in it a shorter \"name\"");
      }
    }
  }

  void check_table_files() const {
    const TableFolders& files = request_.tables;
    if (table_plan_.tables.empty() && !(files.import_from.empty() && files.export_to.empty())) {
      throw Error("table.unknown",
                  "model '" + recipe_.model.name +
                      "' looks up no tables, so that there are no rows to import or export; leave "
                      "--import-tables and --export-tables out");
    }
  }

  // What the recipe asks of windows that a dataset does not have.
  void check_windows() {
    DataSource& train = train_set_->source();
    const auto refuse = [](const char* key, const std::string& why) {
      throw Error("recipe.contradiction", std::string(key) + ": " + why);
    };
    const std::string no_windows =
        train.name() + " has no windows; choose a dataset that does, or remove the key";
    if (!train.info().has_windows) {
      if (recipe_.eval.next_window) {
        refuse("/eval/next_window", no_windows);
      }
      if (!recipe_.data.skip_windows.empty()) {
        refuse("/data/skip_windows", no_windows);
      }
      if (recipe_.eval.with_window != WithWindow::kNever) {
        refuse("/eval/with_window", no_windows);
      }
    }
    const auto has_windows = [](RunDataset& set) { return set.source().info().has_windows; };
    if (recipe_.eval.with_window != WithWindow::kNever &&
        std::ranges::none_of(eval_sets_, has_windows)) {
      refuse("/eval/with_window",
             "no dataset of data.eval has windows; eval.every_windows evaluates on all of a "
             "dataset after so many windows of training");
    }
  }

  // What checkpoints are without, and what the files of exports are.
  void plan_saves() {
    if (!recipe_.checkpoint.has_value()) {
      return;
    }
    std::vector<std::string> tables;
    for (const PlannedTable& table : table_plan_.tables) {
      tables.push_back(table.spec.name);
    }
    left_out_ = left_out_of(recipe_.checkpoint->exclude, graph_, tables);
    for (const ExportRecipe& one : recipe_.checkpoint->exports) {
      if (one.format == ExportFormat::kHf) {
        layout_ = places_in_layout(model_->instance(),
                                   graph_,
                                   export_name(one.format),
                                   static_cast<uint32_t>(precision_.stored));
      }
    }
  }

  void check_fields(DataSource& source) {
    const auto& fields = *source.info().schema;
    try {
      check_model_fields(graph_, fields, source.name());
    } catch (const Error& error) {  // it knows the model's graph alone
      throw error.with_context(model_->instance().identity().describe());
    }
    TableSet::check_fields(table_plan_.lookups, fields, source.name());
    losses_->check_fields(fields, source.name());
    metric_set_->check_fields(fields, source.name());
    const bool is_sized = source.info().style == DatasetStyle::kMap && !source.info().has_windows;
    if (is_sized && source.size(nullptr) == 0) {
      throw Error("data.empty", source.name() + " has no samples");
    }
    if (source.info().style == DatasetStyle::kStream) {
      shards_of_rank(source, data_rank(), {});  // throws where there are too few
    }
  }

  uint64_t data_seed() const { return mix_seeds(recipe_.seed, stream_of("data")); }

  DataRank data_rank() const { return {.rank = mesh_.rank(), .size = mesh_.world_size()}; }

  LoaderOptions loader_options() const {
    LoaderOptions options;
    options.batch_size = recipe_.data.batch_size;
    options.rank = data_rank();
    options.last = recipe_.data.last == LastBatch::kDrop ? Remainder::kDrop : Remainder::kShort;
    options.samples_per_step =
        recipe_.data.batch_size * plan_.microbatches_per_step * mesh_.world_size();
    options.shuffle = recipe_.data.shuffle;
    options.seed = data_seed();
    options.num_threads = static_cast<int>(recipe_.data.loader_threads);
    // Enough for the whole next step beside what prefetch asks for.
    options.prefetch = static_cast<int>(recipe_.data.prefetch + plan_.microbatches_per_step);
    options.gpu = device_.gpu.get();
    return options;
  }

  // Without the run folder, which is not there yet.
  RunReport make_report() {
    RunReport report{recipe_,
                     kVersion,
                     kTorchVersion,
                     describe_device(device_),
                     "",
                     request_.command_line,
                     mesh_,
                     0,
                     {},
                     {}};
    report.num_parameters = graph_.num_elements();
    report.components.push_back(reported("model",
                                         model_->instance(),
                                         grouped_digits(report.num_parameters) + " parameters in " +
                                             std::to_string(graph_.blocks.size()) +
                                             (graph_.blocks.size() == 1 ? " block" : " blocks") +
                                             frozen_text()));
    const auto add = [&](const std::vector<ReportedComponent>& lines) {
      report.components.insert(report.components.end(), lines.begin(), lines.end());
    };
    add(train_set_->reported("data"));
    const auto add_sets = [&](std::deque<RunDataset>& sets, const std::vector<EvalSetUse>& uses) {
      for (size_t i = 0; i < sets.size(); ++i) {
        add(sets[i].reported(uses[i].list + (uses[i].name.empty() ? "" : "/" + uses[i].name)));
      }
    };
    add_sets(eval_sets_, recipe_.data.eval);
    add_sets(test_sets_, recipe_.data.test);
    add(train_set_->reported_features());
    add(report_components_);
    report.components.push_back(reported("optimizer", partitions_.front().optimizer.instance()));
    if (scheduler_.has_value()) {
      report.components.push_back(reported("schedule", scheduler_->instance()));
    }
    for (const HookProxy& hook : hooks_) {
      report.components.push_back(reported("hook", hook.instance()));
    }
    for (const MetricSinkProxy& sink : sink_proxies_) {
      report.components.push_back(reported("sink", sink.instance()));
    }
    return report;
  }

  LoadGoal load_goal() const {
    LoadGoal goal{.model = model_->instance(), .graph = graph_, .tables = {}};
    for (const PlannedTable& table : table_plan_.tables) {
      goal.tables.push_back(table.spec);
    }
    return goal;
  }

  void add_exports(Checkpointing& checkpoints,
                   const CheckpointRecipe& recipe,
                   const WriterPlace& place,
                   const std::string& run_dir) {
    const auto storage = [&](const std::string& what) -> std::shared_ptr<BundleStorage> {
      return make_checkpoint_storage(factory_, recipe.storage, run_dir, "exports/" + what);
    };
    for (const ExportRecipe& one : recipe.exports) {
      const std::string name = export_name(one.format);
      const bool has_layout = one.format == ExportFormat::kHf;
      if (has_layout && is_first() && !table_plan_.tables.empty()) {
        log_warning("exports of the format " + name +
                    " are without rows of tables; \"weights\" have them");
      }
      checkpoints.add_export(std::make_unique<Export>(
          one,
          Export::Places{.made = storage(name),
                         .shares = has_layout ? storage("." + name) : nullptr},
          world_->control(),
          place,
          static_cast<int>(recipe.retries),
          has_layout ? layout_ : std::nullopt));
    }
  }

  Outcome run_loop(const RunFolder& folder, Progress& progress) {
    SavedStates* const saved = checkpoints_.find(folder);
    std::optional<ModelBank> bank;
    if (!recipe_.load.empty()) {
      bank.emplace(recipe_.load, factory_, load_goal(), world_->control());
      if (saved == nullptr && request_.start_from == nullptr) {
        bank->open();
      }
    }
    std::optional<Checkpointing> checkpoints;
    const bool is_seed = !request_.weights.format.empty();
    const CheckpointRecipe saving = recipe_.checkpoint.value_or(CheckpointRecipe());
    if (recipe_.checkpoint.has_value() || is_seed) {
      const WriterPlace place = {.rank = mesh_.rank(),
                                 .world_size = mesh_.world_size(),
                                 .replica = mesh_.coordinate(MeshDim::kReplicate),
                                 .num_replicas = mesh_.size(MeshDim::kReplicate)};
      CheckpointFacts facts = checkpoints_.facts();
      facts.left_out = left_out_;
      checkpoints.emplace(saving,
                          checkpoints_.storage_at(folder.path()),
                          world_->control(),
                          place,
                          std::move(facts),
                          frozen_recipe(recipe_),
                          train_set_->source().info().has_windows);
      add_exports(*checkpoints, saving, place, folder.path());
    }
    RankGroups rank_groups(*world_, mesh_, device_.torch, !table_plan_.tables.empty());
    ParameterLayout layout;
    layout.dtype = precision_.stored;
    layout.seen_dtype = precision_.compute;
    layout.device = device_.torch;
    layout.partition_of = [this](uint32_t p) { return optimizer_plan_.partition_of[p]; };
    layout.sharing = sharing_of(recipe_.parallel, mesh_, device_.torch);
    layout.unsharded = unsharded_of(mesh_);
    layout.is_unsharded = [this](uint32_t p) { return unsharded_[p]; };
    ParameterStore parameters(graph_, layout);
    ParameterFlow flow(parameters, rank_groups.for_flow(), flow_options(recipe_.parallel));
    ExecBase init_base = exec_;  // first values are made on the CPU
    init_base.device = at::kCPU;
    init_base.stream = nullptr;
    ExecFrame init_frame(model_->instance().host(), init_base);
    std::optional<TableSet> tables;
    std::optional<TableRows> rows;
    if (!table_plan_.tables.empty()) {
      tables.emplace(std::move(tables_), table_plan_.lookups, exec_, rank_groups.for_tables());
      rows.emplace(*tables, table_plan_.values);
    }
    if (!request_.tables.import_from.empty()) {
      together(world_->control(), "import of tables", [&] {
        import_tables(*tables, request_.tables.import_from, [this](int64_t id) {
          return RowExchange::owner_of(id, mesh_.world_size()) == mesh_.rank();
        });
      });
    }
    ModelRunner runner(*model_,
                       parameters,
                       exec_,
                       recipe_.train.recompute == Recompute::kBlocks ? RecomputeMode::kBlocks
                                                                     : RecomputeMode::kNone,
                       &flow,
                       rows.has_value() ? &*rows : nullptr);
    ExecBase update_base = exec_;  // where slices are kept
    if (layout.sharing.home.has_value()) {
      update_base.device = *layout.sharing.home;
      update_base.stream = nullptr;
    }
    OptimizerDriver optimizer(std::move(partitions_), parameters.groups(), update_base);
    DataStream train_data(
        train_set_->source(), loader_options(), SkipList(recipe_.data.skip_windows));
    std::deque<DataStream> eval_data;
    const auto evaluated = [&](std::deque<RunDataset>& sets,
                               const std::vector<EvalSetUse>& uses,
                               std::optional<int64_t> batches) {
      std::vector<EvalSet> result;
      for (size_t i = 0; i < sets.size(); ++i) {
        DataStream& data =
            eval_data.emplace_back(sets[i].source(), for_evaluation(loader_options(), batches));
        result.push_back({eval_prefix(uses[i]), &data});
      }
      return result;
    };
    std::optional<BestState> best;
    if (recipe_.eval.keep_best.has_value()) {
      BestState::Parts kept = {{"parameters", &parameters}};
      if (tables.has_value()) {
        kept.emplace_back("tables", &*tables);
      }
      best.emplace(*recipe_.eval.keep_best, std::move(kept));
    }
    MetricBook metrics(device_.gpu != nullptr ? MetricBook::Reading::kTogether
                                              : MetricBook::Reading::kAtOnce);
    SinkList sinks(is_first() ? std::move(sink_proxies_) : std::vector<MetricSinkProxy>());
    sinks.open(folder.path());
    const SignalWatch signals(request_.ranks.launcher == "launch" ? SignalWatch::Second::kIgnored
                                                                  : SignalWatch::Second::kEnds);
    std::optional<StepProfile> profile;
    if (request_.profile.has_value()) {
      const bool is_on_gpu = device_.torch.is_cuda();
      profile.emplace(
          *request_.profile,
          folder.file(is_first() ? "profile.json"
                                 : "logs/profile-rank-" + std::to_string(mesh_.rank()) + ".json"),
          is_on_gpu ? StepProfile::Devices::kCpuAndGpu : StepProfile::Devices::kCpu);
    }
    std::optional<LossScale> loss_scale;
    if (precision_.autocast == at::kHalf) {
      loss_scale.emplace(device_.torch);
    }
    TrainerParts parts{
        .recipe = recipe_,
        .plan = plan_,
        .parameters = parameters,
        .flow = flow,
        .model = runner,
        .losses = *losses_,
        .metric_set = *metric_set_,
        .optimizer = optimizer,
        .tables = tables.has_value() ? &*tables : nullptr,
        .loss_scale = loss_scale.has_value() ? &*loss_scale : nullptr,
        .lr_scheduler = scheduler_.has_value() ? &*scheduler_ : nullptr,
        .train_data = train_data,
        .eval_sets = evaluated(eval_sets_, recipe_.data.eval, recipe_.eval.batches),
        .test_sets = evaluated(test_sets_, recipe_.data.test, std::nullopt),
        .components = &factory_.states(),
        .start_from = request_.start_from,
        .saved = saved,
        .bank = bank.has_value() ? &*bank : nullptr,
        .at_rest = request_.at_rest,
        .checkpoints = checkpoints.has_value() ? &*checkpoints : nullptr,
        .best = best.has_value() ? &*best : nullptr,
        .is_eval_only = request_.is_eval_only,
        .is_seed_only = is_seed,
        .gpu = device_.gpu.get(),
        .metrics = metrics,
        .sinks = sinks,
        .progress = progress,
        .collective = world_->control(),
        .mesh = mesh_,
        .norms =
            device_.gpu != nullptr && mesh_.world_size() > 1 ? rank_groups.for_flow().all : nullptr,
        .signals = &signals,
        .published = published_,
        .profile = profile.has_value() ? &*profile : nullptr,
        .run_dir = folder.path(),
        .initialise =
            [&] {
              parameters.initialise(
                  *model_, init_frame.exec(), mix_seeds(recipe_.seed, stream_of("init")));
              if (weights_.has_value()) {
                weights_->load(parameters);
              }
            },
        .on_failure = [this](const Error& error) { return watch_->fail(error); },
        .after_first_step =
            [this] {
              world_->end_start();
              watch_->end_start();
            }};
    Trainer trainer(std::move(parts), std::move(hooks_));
    Outcome outcome = trainer.run();
    if (!request_.tables.export_to.empty() && outcome.error_id.empty()) {
      together(world_->control(), "export of tables", [&] {
        export_tables(*tables,
                      request_.tables.export_to,
                      request_.tables.has_slots ? RowParts::kAll : RowParts::kValues,
                      mesh_.rank(),
                      mesh_.world_size());
      });
    }
    outcome.traffic = world_->traffic();
    outcome.peak_tensor_bytes = cpu_tensor_memory().peak_bytes;
    if (outcome.error_id.empty() || mesh_.world_size() == 1) {
      outcome.parameters_hash =
          parameters.hash([&flow](FlatGroup& group) { return flow.gather_stored(group); });
    }
    return outcome;
  }

  const Recipe& recipe_;
  const RunRequest& request_;
  std::optional<RunLock> lock_;  // on the run's folder; the last thing that goes
  const Mesh mesh_;
  const tenon_mesh mesh_view_;
  ComputeDevice device_;  // outlives all that computes
  PrecisionPolicy precision_;
  std::optional<PluginWaits> waits_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  PublishedState published_;
  std::mutex stuck_mutex_;
  StuckWriter write_stuck_summary_;  // empty where there is no folder to write it to
  Watchdog watchdog_;                // outlives all components: destroy() may hang too
  std::unique_ptr<World> world_;
  std::optional<RankWatch> watch_;
  ExecBase exec_;
  ComponentFactory factory_;
  RunCheckpoints checkpoints_;
  std::optional<ModelProxy> model_;
  std::optional<RunDataset> train_set_;
  std::deque<RunDataset> eval_sets_;  // in the order of the recipe
  std::deque<RunDataset> test_sets_;
  std::optional<LrSchedulerProxy> scheduler_;
  std::vector<HookProxy> hooks_;
  std::vector<MetricSinkProxy> sink_proxies_;
  ModelGraph graph_;
  std::optional<LossSet> losses_;
  std::optional<MetricSet> metric_set_;
  std::optional<WeightsImport> weights_;  // where the run begins with some
  TablePlan table_plan_;
  LeftOut left_out_;                    // of checkpoints
  std::optional<WeightPlaces> layout_;  // of exports, where the recipe asks for some
  std::vector<TableUse> tables_;
  OptimizerPlan optimizer_plan_;
  std::vector<bool> unsharded_;  // by parameter
  std::vector<OptimizedPartition> partitions_;
  LoopPlan plan_;
  std::vector<ReportedComponent> report_components_;
};

}  // namespace

void check_training(const Recipe& recipe,
                    PluginRegistry& registry,
                    const GpuPlaces& gpu,
                    const RankEnvironment& ranks) {
  RunRequest request;
  request.gpu = gpu;
  request.ranks = ranks;
  Run(recipe, registry, request, Run::Purpose::kCheck).check();
}

void check_number_of_ranks(const Recipe& recipe, uint32_t world_size) {
  Mesh({.replicate = recipe.parallel.replicate, .shard = recipe.parallel.shard}, world_size, 0);
  microbatches_per_step(recipe, world_size);
}

Outcome run_training(const Recipe& recipe, PluginRegistry& registry, const RunRequest& request) {
  std::optional<Run> run;
  try {
    if (request.is_eval_only && recipe.data.eval.empty()) {
      throw Error(
          "recipe.no_eval",
          recipe.file + ": --eval-only needs a dataset to evaluate on; name one in /data/eval");
    }
    check_number_of_ranks(recipe, request.ranks.world_size);
    run.emplace(recipe, registry, request, Run::Purpose::kTrain);
  } catch (const std::exception& error) {
    fail_with_others(request.ranks, run_failure(error));
    throw;
  }
  try {
    run->check_with_all();
    return run->train();
  } catch (const SharedFailure& failure) {
    run->leave(failure);
    throw;
  } catch (const std::exception& error) {
    const FailedEnd end = run->fail(run_failure(error));
    if (!end.is_told) {
      throw;
    }
    throw SharedFailure(end.error, false, end.code);
  }
}

}  // namespace tenon
