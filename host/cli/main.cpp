// SPDX-License-Identifier: Apache-2.0
//
// The program: reads the command line, sets up the process and runs the action (actions/).
// Invariants: an error is printed once, on stderr. The exit status is defined in exit_code.hpp. The
// result of an action is printed completely, or the exit status is not 0 (print_output.hpp).
// Plugins are vetted in forked processes, before this process starts a thread. With --launch, this
// process checks the recipe and starts ranks, which do the rest.

#include "host/cli/all_actions.hpp"
#include "host/cli/failure_text.hpp"
#include "host/cli/parse_command_line.hpp"
#include "host/cli/start_failure.hpp"
#include "host/distributed/collectives/together.hpp"
#include "host/distributed/failures/early_failure.hpp"
#include "host/distributed/launch/rank_process.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/topology.hpp"
#include "host/error/credentials.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/process/process.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <cerrno>  // program_invocation_name
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace tenon {
namespace {

void set_up_log_for(const CommandLine& line, const RankEnvironment& ranks) {
  const LogLevel usual = line.is_quiet ? LogLevel::kWarning : LogLevel::kInfo;
  set_up_log({.level = line.log_level.value_or(usual),
              .rank = static_cast<int>(ranks.rank),
              .num_ranks = static_cast<int>(ranks.world_size)});
}

// Returns the ranks that this process belongs to; the default for an action of one process, and for
// the launcher.
RankEnvironment ranks_for(const CommandLine& line) {
  const Environment environment = environment_variables();
  forget_secret_variable();
  if (line.action->processes == Processes::kOne) {
    return {};
  }
  RankEnvironment ranks = read_rank_environment(environment);
  find_secret(ranks, environment);
  if (line.num_ranks > 0 && ranks.world_size > 1) {
    throw Error("usage.bad_option",
                formatted("--launch {} in a process that is rank {} of {} already, started by {}; "
                          "leave --launch out",
                          line.num_ranks,
                          ranks.rank,
                          ranks.world_size,
                          ranks.launcher));
  }
  return line.num_ranks > 0 ? RankEnvironment{} : ranks;
}

// Writes the rank of this process to the log file only. Rank 0 warns if the run is not protected.
void note_rank(const RankEnvironment& ranks) {
  if (ranks.world_size > 1 && ranks.secret.empty() && ranks.rank == 0) {
    log_warning(
        "the ranks have no secret, so other users of their network can read and end this run; set "
        "TENON_RUN_SECRET_FILE on all ranks (docs/security.md)");
  }
  if (ranks.world_size > 1) {
    log_to_file(formatted("rank {} of {}, started by {}, on processors {}; ranks meet at {}:{}",
                          ranks.rank,
                          ranks.world_size,
                          ranks.launcher,
                          processors_text(allowed_processors()),
                          ranks.master_addr,
                          ranks.master_port));
  }
}

ExitCode act(const CommandLine& line, const std::vector<std::string>& words, Process& process) {
  const Invocation invocation{.words = words, .process = process, .ranks = ranks_for(line)};
  die_with_agent(invocation.ranks);
  show_rank(words.front(), invocation.ranks);
  if (line.action == &kTrainAction && line.num_ranks == 0 && invocation.ranks.launcher.empty()) {
    process.start_witness();
  }
  set_up_log_for(line, invocation.ranks);
  note_rank(invocation.ranks);
  return line.action->run(line, invocation);
}

ExitCode run_program(const std::vector<std::string>& words, Process& process) noexcept {
  try {
    return act(parse_command_line({words.begin() + 1, words.end()}), words, process);
  } catch (const SharedFailure& error) {
    flush_log();
    if (error.is_printed_here()) {
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
                 printable_text(hide_credentials(error.what())).c_str());
    return ExitCode::kFailed;
  }
}

// On another thread.
[[noreturn]] void end_stuck_shutdown(const StuckCall& call, Process& process) {
  const Error error("plugin.stuck",
                    call.describe() + "; a call cannot be cancelled, so the process ends here");
  log_error(error.what());
  flush_log();
  process.end(static_cast<int>(ExitCode::kFailed));
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::end_start_failures();
  tenon::Process process;
  std::vector<std::string> words(argv, argv + argc);
  if (words.empty()) {
    words.emplace_back("host");
  }
  // Suggested commands start with the program as the user called it, also those of launched ranks.
  std::string program = tenon::without_rank_title(words.front());
  if (program != words.front()) {
    program_invocation_name = program.data();
  }
  words.front() = std::filesystem::path(program).filename().string();
  tenon::ExitCode code = tenon::run_program(words, process);
  process.end_witness();
  // Plugins are shut down here, because destructors of their libraries would run in an undefined
  // order; Process::end() runs none.
  const auto end_stuck = [&process](const tenon::StuckCall& call) {
    tenon::end_stuck_shutdown(call, process);
  };
  if (!tenon::shutdown_plugins(end_stuck)) {
    code = tenon::ExitCode::kFailed;
  }
  tenon::flush_log();
  process.end(static_cast<int>(code));
}
