// SPDX-License-Identifier: Apache-2.0
//
// The program: reads the command line and does what it asks for. Everything is put together here;
// what each part does is in the folders below.
// Invariants: an error is printed once, on stderr; the exit status is that of exit_code.hpp.
// Plugins are vetted, by processes forked off this one, before anything here starts a thread. With
// --launch this process checks the recipe, and the ranks that it starts do the rest.

#include "host/cli/checked_recipe.hpp"
#include "host/cli/command_line.hpp"
#include "host/cli/describe_component.hpp"
#include "host/cli/editor_schema.hpp"
#include "host/cli/explain_error.hpp"
#include "host/cli/failure_text.hpp"
#include "host/cli/inspect_checkpoint.hpp"
#include "host/cli/launched_run.hpp"
#include "host/cli/list_plugins.hpp"
#include "host/cli/plugin_folders.hpp"
#include "host/cli/service_table.hpp"
#include "host/cli/show_row.hpp"
#include "host/cli/trace_diff.hpp"
#include "host/cli/version_text.hpp"
#include "host/device/gpu_places.hpp"
#include "host/distributed/early_failure.hpp"
#include "host/distributed/rank_environment.hpp"
#include "host/distributed/rank_process.hpp"
#include "host/distributed/together.hpp"
#include "host/distributed/topology.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/train/plan_report.hpp"
#include "host/train/recipe_plan.hpp"
#include "host/train/run_failure.hpp"
#include "host/train/run_training.hpp"
#include "host/train/table_files.hpp"
#include "host/train/weights_export.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon {
namespace {

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void set_up_log_for(const CommandLine& line, const RankEnvironment& ranks) {
  const LogLevel usual = line.is_quiet ? LogLevel::kWarning : LogLevel::kInfo;
  set_up_log({.level = line.log_level.value_or(usual),
              .rank = static_cast<int>(ranks.rank),
              .world_size = static_cast<int>(ranks.world_size)});
}

// Of the ranks that this process is one of; what needs no recipe is one alone.
RankEnvironment ranks_for(const CommandLine& line) {
  if (line.action != Action::kTrain && line.action != Action::kEvaluate &&
      line.action != Action::kValidate) {
    return {};
  }
  RankEnvironment ranks = read_rank_environment(environment_variables());
  if (line.num_ranks > 0 && ranks.world_size > 1) {
    throw Error("usage.bad_option",
                "--launch " + std::to_string(line.num_ranks) + " in a process that is rank " +
                    std::to_string(ranks.rank) + " of " + std::to_string(ranks.world_size) +
                    " already, started by " + ranks.launcher + "; leave --launch out");
  }
  return line.num_ranks > 0 ? RankEnvironment{} : ranks;
}

// For the log alone.
void note_rank(const RankEnvironment& ranks) {
  if (ranks.world_size > 1) {
    log_to_file("rank " + std::to_string(ranks.rank) + " of " + std::to_string(ranks.world_size) +
                ", started by " + ranks.launcher + ", on processors " +
                processors_text(allowed_processors()) + "; ranks meet at " + ranks.master_addr +
                ":" + std::to_string(ranks.master_port));
  }
}

// Where the recipe leaves it open; 0 for one a processor.
int compute_threads_for(const RankEnvironment& ranks) {
  if (ranks.threads > 0 || ranks.launcher.empty()) {
    return static_cast<int>(ranks.threads);
  }
  return share_of_threads(static_cast<int>(allowed_processors().size()),
                          num_online_processors(),
                          ranks.local_world_size);
}

std::filesystem::path own_program() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed);
}

std::vector<PluginFolder> plugin_folders(const CommandLine& line) {
  const char* const variable = std::getenv("TENON_PLUGIN_PATH");
  return choose_plugin_folders(
      line.plugin_dirs, variable != nullptr ? variable : "", own_program());
}

PluginSetup plugin_setup(const CommandLine& line, Vetting vetting) {
  PluginSetup setup{
      .folders = plugin_folders(line), .services = make_service_table(), .vetting = vetting};
  if (!line.use_vet_cache) {
    setup.vet_cache_file = "";
  }
  return setup;
}

void list_plugins(const CommandLine& line) {
  const std::vector<PluginFolder> folders = plugin_folders(line);
  const std::vector<PluginInfo> plugins = scan_plugins(folders);
  print(line.is_json ? plugin_list_json(plugins) : plugin_table(plugins, folders));
}

// Calls `find`, and tells of the plugins that were refused: first, since one of them may be why it
// fails, but not of the one that the failure itself is about.
template <class Find>
auto telling_of_refused(const PluginRegistry& registry, Find find) -> decltype(find()) {
  try {
    decltype(auto) found = find();
    registry.warn_of_refused();
    return found;
  } catch (const Error& error) {
    registry.warn_of_refused(error.what());
    throw;
  }
}

void describe(const CommandLine& line) {
  if (line.describe_kind.empty()) {
    print(recipe_markdown(line.describe_keys));
    return;
  }
  PluginRegistry registry(plugin_setup(line, Vetting::kOnDemand));
  const LoadedComponent& component = telling_of_refused(registry, [&]() -> const LoadedComponent& {
    return component_to_describe(registry, line.describe_kind, line.describe_type);
  });
  print(line.is_json       ? component_json(component)
        : line.is_markdown ? component_markdown(component)
                           : component_text(component));
}

void print_schema(const CommandLine& line) {
  PluginRegistry registry(plugin_setup(line, Vetting::kEarly));
  registry.warn_of_refused();
  print(editor_schema_text(offered_components(registry)));
}

// As it was given: a rank of --launch was not given that.
std::string command_text(std::vector<std::string> words, const RankEnvironment& ranks) {
  if (ranks.launcher == "launch") {
    words.insert(words.begin() + 1, {"--launch", std::to_string(ranks.world_size)});
  }
  return shell_text(words);
}

// True where other processes wait for this one.
bool is_one_of_several(const CommandLine& line, const RankEnvironment& ranks) {
  const bool trains = line.action == Action::kTrain || line.action == Action::kEvaluate;
  return trains && line.num_ranks == 0 && ranks.world_size > 1;
}

// Everything that begins with a recipe.
ExitCode run(const CommandLine& line,
             const RankEnvironment& ranks,
             const std::vector<std::string>& words) {
  std::optional<PluginRegistry> registry_of_run;
  std::optional<Recipe> checked;
  try {
    RecipeDraft draft = read_recipe(
        {.path = line.recipe, .sets = line.sets, .compute_threads = compute_threads_for(ranks)});
    PluginRegistry& registry = registry_of_run.emplace(plugin_setup(line, Vetting::kEarly));
    checked =
        telling_of_refused(registry, [&] { return check_recipe(std::move(draft), registry); });
  } catch (const Error& error) {
    if (is_one_of_several(line, ranks)) {
      fail_with_others(ranks, error);
    }
    throw;
  }
  PluginRegistry& registry = *registry_of_run;
  const Recipe& recipe = *checked;
  if (line.action == Action::kPrintRecipe) {
    print(frozen_recipe(recipe));
    return ExitCode::kDone;
  }
  if (line.action == Action::kPlan) {
    const RecipePlan plan = plan_recipe(recipe, registry, line.plan);
    print(line.is_json ? plan_json(plan) : plan_text(plan));
    return ExitCode::kDone;
  }
  if (line.action == Action::kShowRow) {
    print(row_text({.table = line.table, .id = line.row_id, .place = "as it starts"},
                   first_row(recipe, registry, line.table, line.row_id),
                   line.is_json ? RowTextForm::kJson : RowTextForm::kLines));
    return ExitCode::kDone;
  }
  const GpuPlaces gpu = gpu_places_of(own_program());
  if (line.action == Action::kValidate) {
    if (line.num_ranks > 0) {
      check_number_of_ranks(recipe, line.num_ranks);
    }
    check_training(recipe, registry, gpu, ranks);
    print(line.is_quiet ? "" : line.recipe + " is valid\n");
    return ExitCode::kDone;
  }
  if (line.num_ranks > 0) {
    check_number_of_ranks(recipe, line.num_ranks);
    return run_launched(line, recipe, words);
  }
  const auto style =
      line.is_quiet || ranks.rank > 0 ? Progress::Style::kQuiet : Progress::Style::kAuto;
  const RunRequest request{.run_dir = line.run_dir,
                           .style = style,
                           .resume = line.resume,
                           .command_line = command_text(words, ranks),
                           .profile = line.profile,
                           .is_eval_only = line.action == Action::kEvaluate,
                           .gpu = gpu,
                           .tables = line.tables,
                           .ranks = ranks,
                           .weights = line.weights_import};
  return run_training(recipe, registry, request).code;
}

// Needs the plugins of the recipe that belongs to the checkpoint, and nothing else of it.
void export_to_files(const CommandLine& line) {
  PluginRegistry registry(plugin_setup(line, Vetting::kEarly));
  const auto checked = [&registry](const std::string& file) {
    RecipeDraft draft = read_recipe({.path = file});
    return telling_of_refused(registry, [&] { return check_recipe(std::move(draft), registry); });
  };
  print(export_weights(checked, registry, line.weights_export));
}

ExitCode act(const CommandLine& line, const std::vector<std::string>& words) {
  const RankEnvironment ranks = ranks_for(line);
  die_with_agent(ranks);
  set_up_log_for(line, ranks);
  note_rank(ranks);
  switch (line.action) {
    case Action::kHelp:
      print(help_text(words.front()));
      return ExitCode::kDone;
    case Action::kVersion:
      print(version_text() + "\n");
      return ExitCode::kDone;
    case Action::kListPlugins:
      list_plugins(line);
      return ExitCode::kDone;
    case Action::kDescribe:
      describe(line);
      return ExitCode::kDone;
    case Action::kPrintSchema:
      print_schema(line);
      return ExitCode::kDone;
    case Action::kTraceDiff: {
      const TraceComparison result = compare_traces(line.traces.front(), line.traces.back());
      print(result.text);
      return result.is_equal ? ExitCode::kDone : ExitCode::kDifferent;
    }
    case Action::kInspect:
      print(inspected_text(line.checkpoints.front(),
                           line.is_json ? InspectForm::kJson : InspectForm::kText));
      return ExitCode::kDone;
    case Action::kVerify:
      print(verified_text(line.checkpoints.front()));
      return ExitCode::kDone;
    case Action::kCheckpointDiff: {
      const CheckpointComparison result =
          compared_checkpoints(line.checkpoints.front(), line.checkpoints.back());
      print(result.text);
      return result.is_equal ? ExitCode::kDone : ExitCode::kDifferent;
    }
    case Action::kShowRow:
      if (line.rows_from.empty()) {
        break;
      }
      print(exported_row_text(line.rows_from,
                              line.table,
                              line.row_id,
                              line.is_json ? RowTextForm::kJson : RowTextForm::kLines));
      return ExitCode::kDone;
    case Action::kExport:
      export_to_files(line);
      return ExitCode::kDone;
    case Action::kExplain:
      print(explain_error(line.explain_id));
      return ExitCode::kDone;
    case Action::kValidate:
    case Action::kPrintRecipe:
    case Action::kPlan:
    case Action::kTrain:
    case Action::kEvaluate:
      break;
  }
  return run(line, ranks, words);
}

ExitCode run_program(const std::vector<std::string>& words) noexcept {
  try {
    return act(parse_command_line({words.begin() + 1, words.end()}), words);
  } catch (const SharedFailure& error) {
    flush_log();
    if (error.is_told_here()) {
      std::fputs(failure_text(error, words.front()).c_str(), stderr);
    }
    return error.code();
  } catch (const Error& error) {
    flush_log();
    std::fputs(failure_text(error, words.front()).c_str(), stderr);
    return error.exit_code();
  } catch (const std::exception& error) {
    flush_log();
    const Error failure = run_failure(error);
    if (failure.id() != "run.internal") {
      std::fputs(failure_text(failure, words.front()).c_str(), stderr);
      return failure.exit_code();
    }
    std::fprintf(stderr,
                 "%s: [host.internal] %s; this is a mistake of the program, please report it\n",
                 words.front().c_str(),
                 error.what());
    return ExitCode::kFailed;
  }
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  // A write that cannot be made is an error with a reason, where it is made: neither a file that
  // may not grow nor a terminal that has gone ends a run.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // It asks a run for a checkpoint: before there is one to ask it must not end the process, nor a
  // rank that it starts.
  std::signal(SIGUSR1, SIG_IGN);
  std::vector<std::string> words(argv, argv + argc);
  if (words.empty()) {
    words.emplace_back("host");
  }
  words.front() = std::filesystem::path(words.front()).filename().string();
  const tenon::ExitCode code = tenon::run_program(words);
  // Static destructors run in an order that nobody controls: plugins are told before.
  tenon::shutdown_plugins();
  return static_cast<int>(code);
}
