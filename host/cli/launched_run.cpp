// SPDX-License-Identifier: Apache-2.0
#include "host/cli/launched_run.hpp"

#include "host/cli/launch_options.hpp"
#include "host/distributed/launch/launch.hpp"
#include "host/distributed/launch/launch_report.hpp"
#include "host/distributed/launch/restart_plan.hpp"
#include "host/distributed/ranks/store_server.hpp"
#include "host/distributed/ranks/topology.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/log/log.hpp"
#include "host/process/process.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/train/run/rank_records.hpp"
#include "host/train/run/run_training.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <cerrno>  // program_invocation_name
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

namespace tenon {
namespace {

// How long the launcher waits for the other ranks after one has ended. They need timeout_seconds to
// notice the loss, and a few seconds to report it.
std::chrono::milliseconds patience_of(const Recipe& recipe) {
  constexpr std::chrono::seconds kToSaySo{5};
  const std::chrono::duration<double> timeout(recipe.parallel.timeout_seconds);
  return kToSaySo + std::chrono::ceil<std::chrono::milliseconds>(timeout);
}

// Prints and stores the only report of a failed run, after all ranks have ended.
void tell(const LaunchReport::Failed& failed) {
  const HasBegun begun = failed.first.activity.step > 0 ? HasBegun::kYes : HasBegun::kNo;
  const RankRecords records(folder_for_records(failed.folder, failed.first, begun));
  std::string text = report_text(failed.first, failed.ranks, records.folder());
  if (!failed.last_words.empty()) {
    text += failed.last_words + "\n";
  }
  text = printable_text(text);
  for (const RankRecord& lost : failed.lost) {
    records.write(lost);
  }
  records.write_report(text);
  records.write_summary_if_missing(failed.first.sentence(), failed.first.exit_code);
  std::fputs(text.c_str(), stderr);
}

// Why the recipe cannot be trained on `num_ranks` ranks; "" if it can.
std::string why_not_on(const Recipe& recipe, uint32_t num_ranks) {
  try {
    check_number_of_ranks(recipe, num_ranks);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

[[noreturn]] void refuse_fewer(const CommandLine& line, const std::string& why) {
  throw Error("usage.bad_option", formatted("--min-ranks {}: {}", line.min_ranks, why));
}

// Checks, before any rank is started, that fewer ranks can take the same steps.
void check_min_ranks(const CommandLine& line, const Recipe& recipe) {
  if (!recipe.train.global_batch_size.has_value() &&
      !recipe.train.global_batch_tokens.has_value()) {
    const int64_t samples = recipe.data.batch_size * recipe.train.gradient_accumulation *
                            static_cast<int64_t>(line.num_ranks);
    refuse_fewer(line,
                 formatted("on fewer ranks a step of this recipe would have fewer samples; say how "
                           "many it has: train.global_batch_size, which on {} ranks is {}",
                           line.num_ranks,
                           samples));
  }
  std::string why;
  for (uint32_t ranks = line.num_ranks - 1; ranks >= line.min_ranks; --ranks) {
    const std::string here = why_not_on(recipe, ranks);
    if (here.empty()) {
      return;
    }
    why += formatted("{}{}: {}", why.empty() ? "" : "; ", ranks, here);
  }
  refuse_fewer(line,
               formatted("the recipe can be trained on no such number of ranks below {}. {}",
                         line.num_ranks,
                         why));
}

// Describes a failed start for the restart plan, after all ranks have ended.
FailedStart failed_start(LaunchReport& report,
                         const std::optional<LaunchReport::Failed>& failed,
                         ExitCode code) {
  FailedStart start;
  start.is_for_good = code != ExitCode::kFailed;
  if (!failed.has_value()) {
    start.rank = report.failed_early();
    start.is_before_first_step = start.rank.has_value();
    return start;
  }
  if (failed->first.is_of_its_rank()) {
    start.rank = failed->first.rank;
    const auto& ranks = failed->ranks;  // empty if the store cannot be read
    const auto status = *start.rank < ranks.size() ? ranks[*start.rank].status : std::nullopt;
    start.is_before_first_step = !status.has_value() || status->is_starting;
  }
  return start;
}

// "slot 1 is excluded: its rank failed, ... continuing with slots 0 and 2".
std::string excluded_text(const RestartPlan& plan) {
  std::string text = formatted(
      "slot {} is excluded: its rank failed, and again before its first step. ", *plan.excluded());
  text += plan.slots().size() == 1 ? "continuing with slot" : "continuing with slots";
  for (size_t i = 0; i < plan.slots().size(); ++i) {
    text += (i == 0                         ? " "
             : i + 1 == plan.slots().size() ? " and "
                                            : ", ") +
            std::to_string(plan.slots()[i]);
  }
  return text;
}

}  // namespace

// Each start uses a separate part of the store.
ExitCode run_launched(const CommandLine& line, const Recipe& recipe, const Invocation& invocation) {
  const std::vector<std::string>& words = invocation.words;
  if (line.min_ranks > 0) {
    check_min_ranks(line, recipe);
  }
  LaunchRequest request;
  request.words = arguments_of_rank({words.begin() + 1, words.end()});
  request.words.insert(request.words.begin(), program_invocation_name);
  request.options = joined(arguments_of_launcher({words.begin() + 1, words.end()}), " ");
  const std::vector<RankProcessors> processors = deal_processors(
      read_topology(allowed_processors()), line.num_ranks, line.binding, processor_quota());
  request.patience = patience_of(recipe);
  request.run_id = new_run_id();
  request.secret = new_run_secret();
  const StoreServer store(request.run_id, request.secret);
  request.master_port = store.port();
  RestartPlan plan(
      {.num_ranks = line.num_ranks, .max_restarts = line.max_restarts, .min_ranks = line.min_ranks},
      [&recipe](uint32_t ranks) { return why_not_on(recipe, ranks).empty(); });
  for (;;) {
    request.restart = plan.num_restarts();
    request.slots = plan.slots();
    request.ranks.clear();
    for (const uint32_t slot : request.slots) {
      request.ranks.push_back(processors[slot]);
    }
    const auto num_ranks = static_cast<uint32_t>(request.ranks.size());
    LaunchReport report(store.open(request.restart), num_ranks);
    request.on_end = [&](const EndedRank& end) { return report.note_end(end); };
    const LaunchOutcome outcome = launch_ranks(request);
    flush_log();
    if (const std::string folder = report.folder(); !folder.empty()) {
      request.run_folder = folder;
    }
    const auto failed = report.collect();
    if (failed.has_value()) {
      tell(*failed);
    }
    if (outcome.signal != 0) {
      invocation.process.end_by_signal(outcome.signal);
    }
    const auto code =
        static_cast<ExitCode>(failed.has_value() ? failed->first.exit_code : outcome.code);
    // No restart after the non-finite policy ended the run, since it would do so again, nor after
    // a requested stop.
    const bool may_do_better = code == ExitCode::kFailed || code == ExitCode::kUsage ||
                               code == ExitCode::kRecipe || code == ExitCode::kPlugin;
    if (!may_do_better || outcome.was_asked || !plan.restart(failed_start(report, failed, code))) {
      return code;
    }
    if (plan.excluded().has_value()) {
      log_warning(excluded_text(plan));
    }
    log_warning(formatted(
        "restarting all ranks (attempt {} of {})", plan.num_restarts(), line.max_restarts));
    flush_log();
  }
}

}  // namespace tenon
