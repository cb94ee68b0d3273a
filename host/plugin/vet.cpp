// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/vet.hpp"

#include "host/error/resource_failure.hpp"
#include "host/log/log.hpp"
#include "host/plugin/vet_answer.hpp"
#include "host/plugin/vet_child.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// Only the end of a plugin's output is kept, because it explains a crash.
constexpr std::size_t kMaxOutput = 16384;
constexpr std::size_t kMaxLastWords = 200;
constexpr int kMaxFrames = 8;
constexpr int kMaxReads = 64;  // reads of 4 KiB; four times the capacity of a pipe

// How often to check if a silent child is still running. A process started by the plugin may keep
// the socket open after the child has ended.
constexpr std::chrono::milliseconds kLookAgain{100};

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

[[noreturn]] void fail(const char* call) {
  const int error = errno;
  throw resource_failure(formatted("cannot check plugins in a child process: {}", call), error);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_;
};

// How a child ended.
struct Death {
  int status = 0;        // of waitpid
  bool is_hung = false;  // killed by the host after the timeout
};

// A child process, and its output since the last request.
class VetProcess {
 public:
  VetProcess(std::span<const PluginInfo* const> plugins, const ServiceTable& services) {
    std::array<int, 2> sockets{};
    std::array<int, 2> pipe{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
      fail("socketpair");
    }
    socket_.emplace(sockets[0]);
    const Descriptor child_socket(sockets[1]);
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
      fail("pipe2");
    }
    output_.emplace(pipe[0]);
    const Descriptor child_output(pipe[1]);
    if (fcntl(output_->get(), F_SETFL, O_NONBLOCK) != 0) {
      fail("fcntl");
    }
    void* const shared =
        ::mmap(nullptr, sizeof(VetNote), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
      fail("mmap");
    }
    note_ = new (shared) VetNote{};
    // Otherwise both processes would write the buffered output.
    flush_log();
    std::fflush(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) {
      fail("fork");
    }
    if (pid_ == 0) {
      socket_->close();
      output_->close();
      run_vet_child(child_socket.get(), child_output.get(), parent, plugins, services, *note_);
    }
  }
  VetProcess(const VetProcess&) = delete;
  VetProcess& operator=(const VetProcess&) = delete;
  ~VetProcess() {
    if (pid_ > 0) {
      socket_->close();  // the child then exits
      reap(Clock::now() + std::chrono::seconds(1));
    }
    ::munmap(note_, sizeof(VetNote));
  }

  // Requests that the child load a plugin. Returns the answer, or null if the child died; see
  // death().
  std::optional<std::string> ask(uint32_t index, std::chrono::milliseconds timeout) {
    drain();
    text_.clear();
    const Clock::time_point deadline = Clock::now() + timeout;
    if (send(socket_->get(), &index, sizeof(index), MSG_NOSIGNAL) < 0) {
      reap(deadline);
      return std::nullopt;
    }
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) {
        end_by_force();
        return std::nullopt;
      }
      std::array<pollfd, 2> polled = {pollfd{socket_->get(), POLLIN, 0},
                                      pollfd{output_->get(), POLLIN, 0}};
      if (poll(polled.data(), polled.size(), static_cast<int>(std::min(left, kLookAgain).count())) <
              0 &&
          errno != EINTR) {
        fail("poll");
      }
      drain();
      if (polled[0].revents != 0) {
        if (std::optional<std::string> answer = receive()) {
          return answer;
        }
        reap(deadline);
        return std::nullopt;
      }
      if (has_ended()) {
        return std::nullopt;
      }
    }
  }

  const Death& death() const { return death_; }
  // What the child was doing: "create of loss \"mse\""; "" while it loaded a library.
  std::string call() const {
    const VetNote note = *note_;
    return {note.data(), ::strnlen(note.data(), note.size())};
  }
  const std::string& output() const { return text_; }

 private:
  std::optional<std::string> receive() {
    std::string packet(kMaxAnswerBytes, '\0');
    while (true) {
      const ssize_t n = recv(socket_->get(), packet.data(), packet.size(), 0);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        return std::nullopt;
      }
      packet.resize(static_cast<std::size_t>(n));
      return packet;
    }
  }

  // Collects the output so far, without waiting. The amount is limited, because a child may print
  // endlessly.
  void drain() {
    std::array<char, 4096> buffer;
    for (int i = 0; i < kMaxReads; ++i) {
      const ssize_t n = read(output_->get(), buffer.data(), buffer.size());
      if (n <= 0) {
        return;
      }
      text_.append(buffer.data(), static_cast<std::size_t>(n));
      if (text_.size() > 2 * kMaxOutput) {
        text_.erase(0, text_.size() - kMaxOutput);
      }
    }
  }

  bool has_ended() {
    siginfo_t info{};
    const int looked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (looked == 0 && info.si_pid == 0) {
      return false;
    }
    collect();
    return true;
  }

  // Waits until the child ends, and kills it at the deadline.
  void reap(Clock::time_point deadline) {
    while (!has_ended()) {
      if (Clock::now() >= deadline) {
        end_by_force();
        return;
      }
      poll(nullptr, 0, 1);
    }
  }

  void end_by_force() {
    death_.is_hung = true;
    kill(pid_, SIGKILL);  // also by pid: it may not have created its process group yet
    collect();
  }

  // Collects the status of a child that has ended or was killed.
  void collect() {
    kill(-pid_,
         SIGKILL);  // all processes of the group; the id stays reserved until waitpid
    while (waitpid(pid_, &death_.status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    drain();
  }

  std::optional<Descriptor> socket_;
  std::optional<Descriptor> output_;
  pid_t pid_ = 0;
  Death death_;
  std::string text_;
  VetNote* note_ = nullptr;  // mapped
};

std::string trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

// Returns the lines that are not blank, without surrounding whitespace.
std::vector<std::string> trimmed_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : lines_of(text)) {
    if (std::string kept = trimmed(line); !kept.empty()) {
      lines.push_back(std::move(kept));
    }
  }
  return lines;
}

// The output of a plugin, split into text and backtrace.
struct Output {
  std::string text;
  std::vector<std::string> frames;  // "file(function+0x12) [0x34]"
};

Output split_output(const std::string& all) {
  // The last mark, because the plugin may print anything before it.
  const std::size_t mark = all.rfind(kBacktraceMark);
  if (mark == std::string::npos) {
    return {trimmed(all), {}};
  }
  return {trimmed(all.substr(0, mark)), trimmed_lines(all.substr(mark + kBacktraceMark.size()))};
}

// Joins the last two lines of the output, because C++ runtimes report an uncaught exception in two.
std::string last_words(const std::string& text) {
  const std::vector<std::string> lines = trimmed_lines(text);
  std::string words;
  for (std::size_t i = lines.size() > 2 ? lines.size() - 2 : 0; i < lines.size(); ++i) {
    words += (words.empty() ? "" : " ") + lines[i];
  }
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < ' ') {
      c = '?';
    }
  }
  if (words.size() > kMaxLastWords) {
    words = "..." + words.substr(words.size() - kMaxLastWords);
  }
  return words;
}

// Returns the innermost frame inside the plugin, "crash.so(+0x1139)", or "".
std::string innermost_frame(const PluginInfo& plugin, const std::vector<std::string>& frames) {
  const std::string name = plugin.file.substr(plugin.file.rfind('/') + 1);
  for (const std::string& frame : frames) {
    const std::size_t at = frame.find("/" + name + "(");
    if (at != std::string::npos) {
      return frame.substr(at + 1, frame.find(')', at) - at);
    }
  }
  return {};
}

std::vector<std::string> first_frames(const Output& output) {
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

// "SIGSEGV".
std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : formatted("signal {}", signal);
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

Finding finding_on_signal(const PluginInfo& plugin,
                          int signal,
                          const std::string& when,
                          const Output& output) {
  if (signal != SIGBUS && !is_fault(signal)) {
    return {.what = formatted("was killed by {} {}", signal_name(signal), when),
            .advice = signal == SIGKILL
                          ? "the system sends it when memory runs out: free memory, and start again"
                          : "another process or a limit sent it: start again",
            .is_lasting = false};
  }
  Finding finding{.what = formatted("crashed with {} {}", signal_name(signal), when),
                  .is_lasting = signal != SIGBUS && !has_memory_limit()};
  if (const std::string frame = innermost_frame(plugin, output.frames); !frame.empty()) {
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

Verdict verdict_on_death(const PluginInfo& plugin,
                         const Death& death,
                         const std::string& printed,
                         const std::string& call,
                         std::chrono::milliseconds timeout) {
  const std::string when =
      call.empty() ? "while loading" : "in the " + call + ", which is tried with default options";
  const Output output = split_output(printed);
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
          .message = plugin.describe() + " " + finding.what + "; " + finding.advice,
          .details = output.text,
          .is_lasting = finding.is_lasting,
          .signal = WIFSIGNALED(death.status) ? signal_name(WTERMSIG(death.status)) : "",
          .backtrace = first_frames(output)};
}

Verdict verdict_on_answer(const PluginInfo& plugin,
                          const std::string& answer,
                          const std::string& printed) {
  Verdict verdict = verdict_of_answer(answer).value_or(
      Verdict{.id = "plugin.crashed",
              .message = plugin.describe() +
                         " sent an invalid answer in place of the host's while it was checked; fix "
                         "it or remove it",
              .details = {}});
  verdict.details = trimmed(printed);
  return verdict;
}

}  // namespace

std::chrono::milliseconds vet_timeout_from_environment() {
  const char* const text = std::getenv("TENON_VET_TIMEOUT_S");
  if (text == nullptr || *text == '\0') {
    return std::chrono::seconds(10);
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text, text + std::strlen(text), value);
  // At most one day, which every clock can represent.
  if (problem != std::errc() || *end != '\0' || !(value > 0) || value > 86400) {
    throw Error("usage.bad_option",
                "TENON_VET_TIMEOUT_S is \"" + std::string(text) +
                    "\"; expected a number of seconds above 0 and at most 86400");
  }
  return std::chrono::milliseconds(std::max<long>(1, static_cast<long>(value * 1000)));
}

std::vector<Verdict> vet_plugins(std::span<const PluginInfo* const> plugins,
                                 const ServiceTable& services,
                                 std::chrono::milliseconds timeout) {
  std::vector<Verdict> verdicts;
  std::unique_ptr<VetProcess> child;
  std::size_t num_before = 0;  // plugins that this child has already loaded
  while (verdicts.size() < plugins.size()) {
    const std::size_t i = verdicts.size();
    if (child == nullptr) {
      child = std::make_unique<VetProcess>(plugins, services);
      num_before = 0;
    }
    const std::optional<std::string> answer = child->ask(static_cast<uint32_t>(i), timeout);
    if (answer) {
      verdicts.push_back(verdict_on_answer(*plugins[i], *answer, child->output()));
      ++num_before;
      continue;
    }
    // A plugin may crash only next to others, for example if two define the same operator. Retry in
    // a new child, so that the order of vetting does not decide which plugin is refused.
    const bool is_alone = num_before == 0;
    if (is_alone || child->death().is_hung) {
      verdicts.push_back(
          verdict_on_death(*plugins[i], child->death(), child->output(), child->call(), timeout));
    } else {
      log_debug(plugins[i]->file +
                " ended the child process that had loaded other plugins; retrying alone");
    }
    child.reset();
  }
  return verdicts;
}

}  // namespace tenon
