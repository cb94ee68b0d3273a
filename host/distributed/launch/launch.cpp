// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/launch.hpp"

#include "host/distributed/launch/rank_output.hpp"
#include "host/distributed/launch/rank_process.hpp"
#include "host/distributed/ranks/store_server.hpp"
#include "host/error/crash_page.hpp"
#include "host/error/error.hpp"
#include "host/error/exit_code.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kShownLines = 10;

// A signal, as recorded by the handler.
struct SignalNote {
  int signal = 0;
  bool is_from_terminal = false;  // the kernel has also sent it to all ranks
};

// The pipe to which the handler writes; global, because a handler takes no custom arguments.
volatile std::sig_atomic_t note_pipe = -1;

void on_signal(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const SignalNote note{signal, info != nullptr && info->si_code == SI_KERNEL};
  [[maybe_unused]] const ssize_t written = ::write(note_pipe, &note, sizeof(note));
  errno = error;
}

// Records signals as notes while it lives. At most one object may exist.
class Signals {
 public:
  Signals() {
    if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      throw Error(
          "distributed.launch_failed",
          std::string("cannot start a rank: pipe: ") + std::strerror(errno) + "; raise ulimit -n");
    }
    note_pipe = ends_[1];
    struct sigaction action {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &old_[i]);
      const bool is_nohup = kSignals[i] == SIGHUP && old_[i].sa_handler == SIG_IGN;
      if (!is_nohup) {
        ::sigaction(kSignals[i], &action, nullptr);
      }
    }
  }
  ~Signals() {
    for (size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &old_[i], nullptr);
    }
    note_pipe = -1;
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int pipe() const { return ends_[0]; }

  std::vector<SignalNote> read() {
    std::vector<SignalNote> notes;
    SignalNote note;
    while (::read(ends_[0], &note, sizeof(note)) == static_cast<ssize_t>(sizeof(note))) {
      notes.push_back(note);
    }
    return notes;
  }

 private:
  static constexpr std::array kSignals = {
      SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU, SIGUSR1, SIGCHLD};
  std::array<int, 2> ends_{};
  std::array<struct sigaction, kSignals.size()> old_{};
};

bool is_failure(const EndedRank& end) {
  return end.signal != 0 || !end.has_ended ||
         (end.code != static_cast<int>(ExitCode::kDone) &&
          end.code != static_cast<int>(ExitCode::kStopped));
}

// Prints how a rank ended. Each failure is printed once: rank 0 has the terminal, and itself prints
// errors that all ranks share.
void tell(const EndedRank& end) {
  log_error(Error("distributed.rank_ended", rank_end_text(end)).what());
}

bool is_before_first_step(int code) {
  return code == static_cast<int>(ExitCode::kUsage) ||
         code == static_cast<int>(ExitCode::kRecipe) || code == static_cast<int>(ExitCode::kPlugin);
}

class Launcher {
 public:
  explicit Launcher(const LaunchRequest& request) : request_(request) {}

  ~Launcher() {
    kill_all(SIGKILL);
    for (const Rank& rank : ranks_) {
      while (!rank.end.has_value() && ::waitpid(rank.process.pid, nullptr, 0) < 0 &&
             errno == EINTR) {
      }
    }
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  LaunchOutcome run() {
    start();
    while (num_left() > 0) {
      wait();
      for (const SignalNote& note : signals_.read()) {
        take(note);
      }
      reap();
      end_late_ones();
    }
    if (first_failure_.has_value() && !is_told_ && !is_told_by_first_rank()) {
      tell(*first_failure_);
    }
    return outcome();
  }

 private:
  struct Rank {
    RankProcess process;
    RankOutput output;
    ChildCrashPage crash_page;
    std::optional<EndedRank> end;
    bool is_killed = false;  // it was silent, and the launcher killed it
  };

  void start() {
    RankEnvironment environment;
    environment.world_size = static_cast<uint32_t>(request_.ranks.size());
    environment.local_world_size = environment.world_size;
    environment.master_addr = StoreServer::kAddress;
    environment.master_port = request_.master_port;
    environment.run_id = request_.run_id;
    environment.secret = request_.secret;
    environment.run_folder = request_.run_folder;
    environment.launch_options = request_.options;
    environment.restart = request_.restart;
    for (uint32_t rank = 0; rank < environment.world_size; ++rank) {
      environment.rank = rank;
      environment.local_rank = rank;
      environment.slot = request_.slots.empty() ? rank : request_.slots[rank];
      environment.threads = static_cast<uint32_t>(request_.ranks[rank].threads);
      ChildCrashPage crash_page;
      Environment variables = launch_variables(environment);
      if (crash_page.file() >= 0) {
        variables[kCrashPageVariable] = std::to_string(crash_page.file());
      }
      std::vector<std::string> words = request_.words;
      words.front() = rank_title(words.front(), rank);
      const RankProcess process =
          start_rank({.program = request_.program,
                      .words = std::move(words),
                      .variables = std::move(variables),
                      .processors = request_.ranks[rank].processors,
                      .terminal = rank == 0 ? RankTerminal::kShared : RankTerminal::kPipe,
                      .crash_page = crash_page.file()});
      ranks_.push_back({process, RankOutput(process.output), std::move(crash_page), std::nullopt});
    }
  }

  size_t num_left() const {
    return static_cast<size_t>(
        std::ranges::count_if(ranks_, [](const Rank& rank) { return !rank.end.has_value(); }));
  }

  // Waits for an event, or until `deadline_`.
  void wait() {
    std::vector<pollfd> polled = {{signals_.pipe(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      polled.push_back({rank.output.pipe(), POLLIN, 0});  // poll() skips negative descriptors
    }
    int timeout_ms = -1;
    if (deadline_.has_value()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
      timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
    }
    ::poll(polled.data(), polled.size(), timeout_ms);
    for (Rank& rank : ranks_) {
      rank.output.read_available();
    }
  }

  void take(const SignalNote& note) {
    if (note.signal == SIGCHLD) {
      return;  // it only had to end the wait
    }
    if (note.signal == SIGUSR1) {
      ask_for_checkpoint();
      return;
    }
    const auto now = Clock::now();
    if (!asked_.has_value()) {
      asked_ = now;
      if (!note.is_from_terminal || note.signal == SIGXCPU) {  // its limit is that of one process
        kill_all(note.signal);
      }
    } else if (note.signal != SIGXCPU &&  // the kernel repeats it each second
               now - *asked_ >= request_.times.one_request) {
      ending_signal_ = note.signal;
      kill_all(SIGKILL);
    }
  }

  void reap() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      reap(rank);
    }
  }

  void reap(uint32_t number) {
    Rank& rank = ranks_[number];
    int status = 0;
    if (rank.end.has_value() || ::waitpid(rank.process.pid, &status, WNOHANG) <= 0) {
      return;
    }
    rank.output.read_available();
    EndedRank end;
    end.rank = number;
    end.pid = rank.process.pid;
    end.status = status;
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end.was_ended = end.signal != 0 && (asked_.has_value() || is_ending_ || rank.is_killed);
    end.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    end.log_file = rank.output.log_file();
    end.last_lines = rank.output.last_lines(kShownLines);
    if (const CrashPage* const page = rank.crash_page.page();
        page != nullptr && page->is_used.load(std::memory_order_relaxed) != 0) {
      end.report = page->report();
      end.step = page->step.load(std::memory_order_relaxed);
      end.has_ended = page->has_ended.load(std::memory_order_relaxed) != 0;
    }
    rank.end = end;
    note_end(end);
  }

  void note_end(const EndedRank& end) {
    EndVerdict verdict;
    if (request_.on_end) {
      verdict = request_.on_end(end);
    }
    is_told_ = is_told_ || verdict.has_failed;
    if (verdict.lost.has_value()) {
      end_lost(*verdict.lost);
    }
    if (is_failure(end) && !first_failure_.has_value()) {
      first_failure_ = end;
      // No other process prints this. Print it now: the other ranks may continue for a while.
      if (end.signal != 0 && !is_told_ && !end.was_ended) {
        tell(end);
      }
      is_told_ = is_told_ || end.signal != 0;
    }
    const std::chrono::milliseconds patience =
        verdict.has_failed || is_before_first_step(end.code) || end.was_ended
            ? request_.times.short_patience
            : request_.patience;
    if (!is_ending_) {
      deadline_ = std::min(deadline_.value_or(Clock::time_point::max()), Clock::now() + patience);
    }
  }

  // Kills a rank that is silent, unless it has ended by itself.
  void end_lost(uint32_t number) {
    reap(number);
    Rank& rank = ranks_[number];
    if (!rank.end.has_value()) {
      rank.is_killed = true;
      ::kill(rank.process.pid, SIGKILL);
    }
  }

  bool is_told_by_first_rank() const {
    const EndedRank& first = *ranks_.front().end;
    return first_failure_->rank == 0 || (first.code == first_failure_->code &&
                                         first.code != static_cast<int>(ExitCode::kFailed));
  }

  void end_late_ones() {
    if (num_left() == 0 || !deadline_.has_value() || Clock::now() < *deadline_) {
      return;
    }
    for (const Rank& rank : ranks_) {
      if (!rank.end.has_value() && !is_ending_) {
        log_warning(formatted("terminating rank {}: another rank exited", &rank - ranks_.data()));
      }
    }
    kill_all(is_ending_ ? SIGKILL : SIGTERM);
    is_ending_ = true;
    deadline_ = Clock::now() + request_.times.to_end;
  }

  // Signals one rank only, whose request counts for all ranks. Several ranks would receive the
  // signal in different steps, and each would request a checkpoint.
  void ask_for_checkpoint() {
    const auto rank = std::ranges::find_if(
        ranks_, [](const Rank& candidate) { return !candidate.end.has_value(); });
    if (rank != ranks_.end()) {
      ::kill(rank->process.pid, SIGUSR1);
    }
  }

  void kill_all(int signal) {
    for (const Rank& rank : ranks_) {
      if (!rank.end.has_value()) {
        ::kill(rank.process.pid, signal);
      }
    }
  }

  LaunchOutcome outcome() const {
    LaunchOutcome outcome;
    outcome.signal = ending_signal_;
    outcome.was_asked = asked_.has_value();
    outcome.first_failure = first_failure_;
    if (first_failure_.has_value() && first_failure_->signal != 0) {
      // A rank that a stop request killed before its handler was ready has stopped on request.
      const bool is_on_request = first_failure_->was_ended && asked_.has_value();
      outcome.code = static_cast<int>(is_on_request ? ExitCode::kStopped : ExitCode::kFailed);
    } else if (first_failure_.has_value()) {
      outcome.code = first_failure_->code;
    } else {
      for (const Rank& rank : ranks_) {  // done, or stopped on request
        outcome.code = std::max(outcome.code, rank.end->code);
      }
    }
    return outcome;
  }

  const LaunchRequest& request_;
  Signals signals_;
  const Clock::time_point began_ = Clock::now();
  std::vector<Rank> ranks_;
  std::optional<EndedRank> first_failure_;
  bool is_told_ = false;
  std::optional<Clock::time_point> asked_;     // when a signal first requested the end
  std::optional<Clock::time_point> deadline_;  // for the remaining ranks, once one has ended
  bool is_ending_ = false;                     // after the deadline: remaining ranks must end
  int ending_signal_ = 0;                      // the second signal, which killed the ranks
};

}  // namespace

std::string new_run_id() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof(text), "%08x%08x", random(), random());
  return text;
}

LaunchOutcome launch_ranks(const LaunchRequest& request) {
  return Launcher(request).run();
}

std::string rank_end_text(const EndedRank& end) {
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.1f", end.seconds);
  std::string text =
      formatted("rank {} (process {}) ended {} s after its start, ", end.rank, end.pid, seconds);
  const char* const name = end.signal != 0 ? ::sigabbrev_np(end.signal) : nullptr;
  text += end.signal == 0 ? formatted("with exit status {}", end.code)
                          : formatted("by signal {}{}",
                                      end.signal,
                                      name != nullptr ? formatted(" (SIG{})", name) : "");
  if (end.signal == SIGKILL && !end.was_ended) {
    text += ", which the system also sends when memory runs out";
  }
  text += end.log_file.empty() ? "" : "; log: " + end.log_file;
  if (!end.last_lines.empty()) {
    text += "; last output:";
    for (const std::string& line : end.last_lines) {
      text += "\n  " + line;
    }
  }
  return text;
}

}  // namespace tenon
