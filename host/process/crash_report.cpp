// SPDX-License-Identifier: Apache-2.0
#include "host/process/crash_report.hpp"

#include <tenon/cpp/event_names.hpp>

#include "host/error/exit_code.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/plugin/plugin_loader.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

namespace tenon {
namespace {

constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};

constinit CrashPage unused_page{};
CrashPage* shared_page = &unused_page;
uint32_t reported_rank = 0;
uint32_t reported_ranks = 1;
pid_t reported_process = 0;
std::atomic<bool> has_reported = false;
stack_t old_stack{};
std::array<struct sigaction, kCrashSignals.size()> old_actions{};

// Text of a report, on the stack of the handler.
class ReportText {
 public:
  ReportText& operator<<(std::string_view text) {
    const std::size_t count = std::min(text.size(), bytes_.size() - size_);
    std::memcpy(bytes_.data() + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  ReportText& operator<<(uint64_t number) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return *this << std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()));
  }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, sizeof(CrashPage::text)> bytes_;
  std::size_t size_ = 0;
};

// "SIGSEGV". Only signals of kCrashSignals, which all have a name.
void put_signal(ReportText& text, int signal) {
  text << "SIG" << ::sigabbrev_np(signal);
}

// Like LoadedComponent::describe(), without allocating.
void put(ReportText& text, const LoadedComponent& component) {
  const PluginContext& context = component.plugin->host.context();
  const bool is_whole = component.kind.empty();
  if (!is_whole) {
    text << component.kind << " \"" << component.type << "\" (";
  }
  text << "plugin " << context.id << " " << context.version << (is_whole ? " (" : ", ")
       << context.file << ")";
}

void put_call(ReportText& text,
              const LoadedComponent& component,
              const char* function,
              const char* event) {
  put(text, component);
  text << ": " << function;
  if (*event != '\0') {
    text << " at " << event;
  }
}

// Puts the call in progress on this thread. Returns false if there is none.
bool put_current_call(ReportText& text) {
  const CallSlot* const slot = current_call_slot;
  const LoadedComponent* const component =
      slot != nullptr ? slot->component.load(std::memory_order_relaxed) : nullptr;
  if (component != nullptr) {
    put_call(text,
             *component,
             slot->function.load(std::memory_order_relaxed),
             slot->event.load(std::memory_order_relaxed));
  }
  return component != nullptr;
}

// Puts the last call of this thread, which has returned. Does nothing if there was none.
void put_last_call(ReportText& text) {
  const CallSlot* const slot = current_call_slot;
  const LoadedComponent* const component =
      slot != nullptr ? slot->last_component.load(std::memory_order_relaxed) : nullptr;
  if (component != nullptr) {
    text << "; the last call was ";
    put_call(text, *component, slot->function.load(std::memory_order_relaxed), "");
    text << ", which may have returned an invalid handle or written beyond its memory";
  }
}

void put_progress(ReportText& text) {
  const uint64_t step = shared_page->step.load(std::memory_order_relaxed);
  if (step == 0) {
    text << ", before the first step";
  } else {
    text << ", in step " << step;
  }
  if (reported_ranks > 1) {
    text << " of rank " << reported_rank;
  }
}

// Puts the last event of the loop, for a crash that no call of a plugin explains.
void put_event(ReportText& text) {
  const uint32_t event = shared_page->event.load(std::memory_order_relaxed);
  const char* const name = event != 0 ? find_event_name(event - 1) : nullptr;
  if (name != nullptr) {
    text << ", at " << name;
  }
}

// Prints the report, and stores it for another process. Returns the exit status.
int file_report(const ReportText& text, bool is_of_plugin) {
  const std::string_view report = text.text();
  const bool is_early = is_of_plugin && shared_page->step.load(std::memory_order_relaxed) == 0;
  const auto code = static_cast<int>(is_early ? ExitCode::kPlugin : ExitCode::kFailed);
  std::memcpy(shared_page->text.data(), report.data(), report.size());
  shared_page->exit_code.store(code, std::memory_order_relaxed);
  shared_page->bytes.store(static_cast<uint32_t>(report.size()), std::memory_order_release);
  constexpr std::string_view kBefore = "error: ";
  const auto part = [](std::string_view line) {
    return iovec{.iov_base = const_cast<char*>(line.data()), .iov_len = line.size()};
  };
  const std::array line = {part(kBefore), part(report), part("\n")};
  (void)!::writev(STDERR_FILENO, line.data(), static_cast<int>(line.size()));
  return code;
}

// Reports the call of this thread that crashed; without one, the plugin whose code did; otherwise
// the last call that returned.
int report_crash(int signal, const void* instruction) {
  ReportText call;
  const bool is_in_call = put_current_call(call);
  const LoadedPlugin* const plugin = is_in_call ? nullptr : plugin_of_code(instruction);
  ReportText text;
  if (is_in_call) {
    text << "[plugin.crashed] " << call.text() << " crashed with ";
  } else if (plugin != nullptr) {
    text << "[plugin.crashed] ";
    put(text, plugin->itself);
    text << " crashed outside of a call, for example on a thread that it started, with ";
  } else {
    text << "[run.crashed] the process crashed outside of a plugin's call with ";
  }
  put_signal(text, signal);
  put_progress(text);
  if (!is_in_call) {
    put_event(text);
  }
  if (signal == SIGBUS) {
    text << "; a memory-mapped file was truncated, or its disk failed";
  }
  const bool is_of_plugin = is_in_call || plugin != nullptr;
  if (!is_of_plugin) {
    put_last_call(text);
  }
  return file_report(text, is_of_plugin);
}

// Ends the process as _exit() does, which this program replaces.
[[noreturn]] void end_with(int status) {
  while (true) {
    ::syscall(SYS_exit_group, status);
  }
}

// Dumps the core of a copy of the process.
void dump_core(int signal) {
  const pid_t copy = ::_Fork();
  if (copy == 0) {
    end_by_signal(signal);
  }
  while (copy > 0 && ::waitpid(copy, nullptr, 0) < 0 && errno == EINTR) {
  }
}

const void* instruction_of(const void* context) {
  const auto* const machine = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(machine->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(machine->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

// Reports a signal that another process sent, which is no fault of the code that it interrupts.
int report_foreign(int signal, pid_t sender) {
  ReportText text;
  text << "[run.crashed] the process received ";
  put_signal(text, signal);
  text << " from process " << static_cast<uint64_t>(sender);
  put_progress(text);
  put_event(text);
  return file_report(text, false);
}

void on_crash(int signal, siginfo_t* info, void* context) {
  if (::getpid() != reported_process) {
    end_by_signal(signal);
  }
  if (has_reported.exchange(true)) {
    ::pause();  // another thread reports, and ends the process
  }
  const bool is_foreign = info->si_code == SI_USER && info->si_pid != ::getpid();
  const int code = is_foreign ? report_foreign(signal, info->si_pid)
                              : report_crash(signal, instruction_of(context));
  dump_core(signal);
  ::_exit(code);
}

// Reports that `call` was made, and ends the process.
[[noreturn]] void report_exit(const ReportText& call) {
  ReportText text;
  text << "[plugin.exited] " << call.text();
  put_progress(text);
  text << "; a plugin must return a status instead";
  end_with(file_report(text, true));
}

// Runs if exit() ends the process, and not end_process().
void on_exit() {
  if (::getpid() != reported_process || has_reported.exchange(true)) {
    return;
  }
  ReportText call;
  if (put_current_call(call)) {
    call << " called exit()";
  } else {
    call << "a library called exit() outside of a plugin's call";
  }
  report_exit(call);
}

// Reports that the call that this thread is in has made `exit`, if it is a plugin's.
void report_exit_of_plugin(const char* exit) {
  ReportText call;
  if (::getpid() == reported_process && put_current_call(call) && !has_reported.exchange(true)) {
    call << " called " << exit;
    report_exit(call);
  }
}

}  // namespace

void exit_at_once(int status) {
  report_exit_of_plugin("_exit()");
  end_with(status);
}

void report_plugin_exit() {
  report_exit_of_plugin("exit()");
}

void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t unblocked;
  sigemptyset(&unblocked);
  sigaddset(&unblocked, signal);
  pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr);
  ::raise(signal);
  constexpr int kBySignal = 128;  // as shells report it
  ::_exit(kBySignal + signal);
}

void report_crashes() {
  if (shared_page == &unused_page) {
    shared_page = map_own_crash_page();  // kept: other threads may still write to it
  }
  reported_process = ::getpid();
  // After a stack overflow, the handler needs a separate stack.
  static std::array<char, 1 << 16> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, &old_stack);
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    struct sigaction& old = old_actions[i];
    sigaction(kCrashSignals[i], nullptr, &old);
    if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) {
      continue;
    }
    struct sigaction action {};
    action.sa_sigaction = &on_crash;
    action.sa_flags = static_cast<int>(SA_ONSTACK | SA_SIGINFO);
    sigemptyset(&action.sa_mask);
    sigaction(kCrashSignals[i], &action, nullptr);
  }
  std::atexit(on_exit);
  std::at_quick_exit(on_exit);
}

void stop_reporting_crashes() {
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    struct sigaction now {};
    sigaction(kCrashSignals[i], nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_crash) {
      sigaction(kCrashSignals[i], &old_actions[i], nullptr);
    }
  }
  sigaltstack(&old_stack, nullptr);
  reported_process = 0;
}

void report_crashes_of(uint32_t rank, uint32_t num_ranks) {
  if (reported_process == 0) {
    return;
  }
  reported_rank = rank;
  reported_ranks = num_ranks;
  std::atexit(on_exit);  // what is registered last runs first
}

CrashPage& crash_page() {
  return *shared_page;
}

void end_process(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  shared_page->has_ended.store(1, std::memory_order_relaxed);
  has_reported = true;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // At exit, the sanitizer reports.
  std::exit(code);
#else
  ::_exit(code);
#endif
}

}  // namespace tenon
