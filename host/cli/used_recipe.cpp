// SPDX-License-Identifier: Apache-2.0
#include "host/cli/used_recipe.hpp"

#include "host/cli/checked_recipe.hpp"
#include "host/cli/launch_options.hpp"
#include "host/cli/launched_run.hpp"
#include "host/cli/recipe_lock.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/device/gpu_files.hpp"
#include "host/distributed/failures/early_failure.hpp"
#include "host/distributed/launch/binding.hpp"
#include "host/distributed/ranks/topology.hpp"
#include "host/embedding/parquet_module.hpp"
#include "host/error/credentials.hpp"
#include "host/plugin/checked/checked_calls.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/terminal/shell_text.hpp"
#include "host/text/formatted.hpp"
#include "host/train/pretrained/saved_model.hpp"

#include <cerrno>  // program_invocation_name
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// The options of a command line that select plugins, quoted for a shell.
std::string plugin_options(const CommandLine& line) {
  std::vector<std::string> words;
  for (const std::string& folder : line.plugin_dirs) {
    words.insert(words.end(), {"--plugin-dir", folder});
  }
  if (!line.trust.empty()) {
    words.insert(words.end(), {"--trust", line.trust});
  }
  if (line.allows_writable_plugins) {
    words.emplace_back("--allow-writable-plugins");
  }
  return shell_text(words);
}

// Compute threads if the recipe does not set them. torchrun sets OMP_NUM_THREADS to 1 by itself:
// there it is not the user's choice.
int compute_threads_for(const RankEnvironment& ranks) {
  const char* const wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && ranks.launcher != "torchrun") {
    if (const int threads = threads_of_variable(wanted); threads > 0) {
      return threads;
    }
  }
  if (ranks.threads > 0) {
    return static_cast<int>(ranks.threads);
  }
  return share_of_threads(static_cast<int>(allowed_processors().size()),
                          num_online_processors(),
                          ranks.launcher.empty() ? 1 : ranks.local_world_size,
                          processor_quota());
}

// The command that the user ran. The launcher starts ranks without its options, so they are added
// back.
std::string command_text(std::vector<std::string> words, const RankEnvironment& ranks) {
  if (ranks.launcher == "launch") {
    std::istringstream options(ranks.launch_options);
    std::vector<std::string> given{std::istream_iterator<std::string>(options), {}};
    if (given.empty()) {
      given = {"--launch", formatted("{}", ranks.world_size)};
    }
    words = with_launcher_options(std::move(words), given);
  }
  return shell_text(words);
}

bool is_run(const CommandLine& line) {
  return line.action == &kTrainAction || line.action == &kEvaluateAction;
}

// True if this process starts ranks that check the recipe again.
bool is_launcher(const CommandLine& line) {
  return is_run(line) && line.num_ranks > 0;
}

// True if other processes wait for this one.
bool is_one_of_several(const CommandLine& line, const RankEnvironment& ranks) {
  return is_run(line) && line.num_ranks == 0 && ranks.world_size > 1;
}

}  // namespace

UsedRecipe use_recipe(const CommandLine& line, const Invocation& invocation) {
  const RankEnvironment& ranks = invocation.ranks;
  try {
    RecipeDraft draft = read_recipe({.path = line.recipe,
                                     .sets = line.sets,
                                     .compute_threads = compute_threads_for(ranks),
                                     .takes_old_names = line.is_recipe_of_run});
    auto plugins =
        std::make_unique<PluginRegistry>(plugin_setup(line, Vetting::kEarly, draft.trust()));
    Recipe recipe = warning_of_refused(*plugins, [&] {
      try {
        return check_recipe(std::move(draft), *plugins);
      } catch (const Error&) {
        warn_of_missing_plugins(line.recipe, *plugins);
        throw;
      }
    });
    if (line.action != &kLockAction) {
      const bool is_told_elsewhere = ranks.rank > 0 || is_launcher(line);
      check_lock(recipe, is_told_elsewhere ? LockReport::kSilent : LockReport::kWarn);
    }
    return {std::move(plugins), std::move(recipe)};
  } catch (const Error& error) {
    if (is_one_of_several(line, ranks)) {
      fail_with_others(ranks, error);
    }
    throw;
  }
}

ExitCode run_recipe(const CommandLine& line, const Invocation& invocation) {
  if (!line.tables.export_to.empty()) {
    load_parquet_module();  // an error at the end of a run would lose its rows
  }
  if (line.checks_plugins) {
    start_checking_calls();
  }
  const UsedRecipe used = use_recipe(line, invocation);
  const RankEnvironment& ranks = invocation.ranks;
  if (line.num_ranks > 0) {
    check_number_of_ranks(used.recipe, line.num_ranks);
    return run_launched(line, used.recipe, invocation);
  }
  const auto style =
      line.is_quiet || ranks.rank > 0 ? Progress::Style::kQuiet : Progress::Style::kAuto;
  const RunRequest request{.run_dir = line.run_dir,
                           .style = style,
                           .resume = line.resume,
                           .command_line = hide_credentials(command_text(invocation.words, ranks)),
                           .program = shell_text(std::vector<std::string>{program_invocation_name}),
                           .plugin_options = plugin_options(line),
                           .profile = line.profile,
                           .is_eval_only = line.action == &kEvaluateAction,
                           .which = line.which,
                           .gpu = gpu_files_of(own_program()),
                           .tables = line.tables,
                           .ranks = ranks,
                           .weights = line.weights_import};
  return run_training(used.recipe, *used.plugins, invocation.process, request).code;
}

}  // namespace tenon
