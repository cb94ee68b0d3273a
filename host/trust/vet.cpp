// SPDX-License-Identifier: Apache-2.0

#include "host/trust/vet.hpp"

#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/child/child_output.hpp"
#include "host/trust/child/watched_child.hpp"
#include "host/trust/vet_answer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon {
namespace {

constexpr int kMaxFrames = 8;

// Signals that code causes itself. Others come from another process, from a limit, or from the
// system when memory runs out. SIGBUS is not listed: a file or a disk may be its cause.
constexpr std::array kFaultSignals = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

// Parts of messages that report a lack of memory, threads, descriptors or disk space.
constexpr std::array<std::string_view, 7> kShortages = {"bad_alloc",
                                                        "out of memory",
                                                        "Out of memory",
                                                        "allocate memory",
                                                        "Resource temporarily unavailable",
                                                        "Too many open files",
                                                        "No space left on device"};

std::vector<std::string> first_frames(const ChildOutput& output) {
  return {output.frames.begin(),
          output.frames.begin() + std::min<std::ptrdiff_t>(std::ssize(output.frames), kMaxFrames)};
}

std::string seconds(std::chrono::milliseconds time) {
  std::string text = formatted("{}", time.count() / 1000);
  if (time.count() % 1000 != 0) {
    text += "." + formatted("{}", 1000 + time.count() % 1000).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

bool is_fault(int signal) {
  return std::ranges::find(kFaultSignals, signal) != kFaultSignals.end();
}

bool names_shortage(std::string_view words) {
  return std::ranges::any_of(kShortages, [&](std::string_view text) {
    return words.find(text) != std::string_view::npos;
  });
}

// Code that cannot get memory often crashes without a message.
bool has_memory_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// What happened to the plugin, and what to do.
struct Finding {
  std::string what;
  std::string advice = "fix or remove it";
  bool is_lasting = true;
};

Finding finding_on_signal(const VetSubject& plugin,
                          int signal,
                          const std::string& when,
                          const ChildOutput& output) {
  if (signal != SIGBUS && !is_fault(signal)) {
    return {.what = formatted("was killed by {} {}", signal_name(signal), when),
            .advice = signal == SIGKILL
                          ? "the system sends it when memory runs out: free memory, and start again"
                          : "another process or a limit sent it: start again",
            .is_lasting = false};
  }
  Finding finding{.what = formatted("crashed with {} {}", signal_name(signal), when),
                  .is_lasting = signal != SIGBUS && !has_memory_limit()};
  if (const std::string frame = innermost_frame(plugin.file, output.frames); !frame.empty()) {
    finding.what += ", in " + frame;
  }
  return finding;
}

Finding finding_on_hang(const std::string& call, std::chrono::milliseconds timeout) {
  return {.what = (call.empty() ? "did not load" : "did not return from the " + call) + " within " +
                  seconds(timeout) + " s",
          .advice = "fix or remove it, or raise TENON_VET_TIMEOUT_S if it only loads slowly",
          .is_lasting = false};
}

Verdict verdict_on_death(const VetSubject& plugin,
                         const ChildDeath& death,
                         const std::string& printed,
                         const std::string& call,
                         std::chrono::milliseconds timeout) {
  const std::string when =
      call.empty() ? "while loading" : "in the " + call + ", which is tried with default options";
  const ChildOutput output = split_output(printed);
  Finding finding;
  if (death.is_hung) {
    finding = finding_on_hang(call, timeout);
  } else if (WIFSIGNALED(death.status)) {
    finding = finding_on_signal(plugin, WTERMSIG(death.status), when, output);
  } else {
    finding.what =
        formatted("ended the process with status {} {}", WEXITSTATUS(death.status), when);
  }
  const std::string words = last_words(output.text);
  if (!words.empty()) {
    finding.what += ", after printing \"" + words + "\"";
  }
  if (!death.is_hung && names_shortage(words)) {
    finding.advice = "free memory or raise the limits (ulimit -a), and start again";
    finding.is_lasting = false;
  }
  return {.id = death.is_hung ? "plugin.hung" : "plugin.crashed",
          .message = plugin.described + " " + finding.what + "; " + finding.advice,
          .details = output.text,
          .is_lasting = finding.is_lasting,
          .signal = WIFSIGNALED(death.status) ? signal_name(WTERMSIG(death.status)) : "",
          .backtrace = first_frames(output)};
}

Verdict verdict_on_answer(const VetSubject& plugin,
                          const std::string& answer,
                          const std::string& printed) {
  Verdict verdict = verdict_of_answer(answer).value_or(
      Verdict{.id = "plugin.crashed",
              .message = plugin.described +
                         " sent an invalid answer in place of the host's while it was checked; fix "
                         "it or remove it",
              .details = {}});
  verdict.details = without_outer_space(printed);
  return verdict;
}

// The request to vet a plugin: its index, which must outlive the result.
std::string_view vet_request(const uint32_t& index) noexcept {
  return {reinterpret_cast<const char*>(&index), sizeof(index)};
}

// In the child.
std::string answer_of_trial(std::size_t index, const VetTrial& trial, ChildNote& note) {
  set_note(note, "");
  Verdict answer = trial(index, [&](std::string_view call) { set_note(note, call); });
  answer.message.resize(  // escaping makes it longer
      std::min(answer.message.size(), kMaxAnswerBytes / 8));
  return vet_answer_text(answer);
}

// Serves requests for `num_plugins` plugins in the child until the parent closes its end.
void serve_vetting(int socket,
                   std::size_t num_plugins,
                   const VetTrial& trial,
                   ChildNote& note) noexcept {
  while (true) {
    uint32_t index = 0;
    const ssize_t n = recv(socket, &index, sizeof(index), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n != static_cast<ssize_t>(sizeof(index)) || index >= num_plugins) {
      return;
    }
    const std::string answer = answer_of_trial(index, trial, note);
    if (send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
      _exit(1);
    }
  }
}

}  // namespace

std::vector<Verdict> vet_plugins(std::span<const VetSubject> plugins,
                                 const VetTrial& trial,
                                 std::chrono::milliseconds timeout) {
  std::vector<Verdict> verdicts;
  std::unique_ptr<WatchedChild> child;
  std::size_t num_before = 0;  // plugins that this child has already loaded
  while (verdicts.size() < plugins.size()) {
    const std::size_t i = verdicts.size();
    if (child == nullptr) {
      child = std::make_unique<WatchedChild>(
          [&](int socket, ChildNote& note) { serve_vetting(socket, plugins.size(), trial, note); },
          LogLevel::kDebug);
      num_before = 0;
    }
    const auto index = static_cast<uint32_t>(i);
    const std::optional<std::string> answer = child->ask(vet_request(index), timeout);
    if (answer) {
      verdicts.push_back(verdict_on_answer(plugins[i], *answer, child->output()));
      ++num_before;
      continue;
    }
    // A plugin may crash only next to others, for example if two define the same operator. Retry in
    // a new child, so that the order of vetting does not decide which plugin is refused.
    const bool is_alone = num_before == 0;
    if (is_alone || child->death().is_hung) {
      verdicts.push_back(
          verdict_on_death(plugins[i], child->death(), child->output(), child->call(), timeout));
    } else {
      log_debug(plugins[i].file +
                " ended the child process that had loaded other plugins; retrying alone");
    }
    child.reset();
  }
  return verdicts;
}

}  // namespace tenon
