// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/crash_report.hpp"

#include "host/plugin/call_watch.hpp"

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>

namespace tenon {
namespace {

constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

void say(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

// Runs on the crashed thread, whose slot names the call in progress. The handler is no longer
// installed: after it returns, the instruction fails again, or the abort continues.
void on_crash(int signal) {
  const CallSlot* const slot = current_call_slot;
  const LoadedComponent* const component =
      slot != nullptr ? slot->component.load(std::memory_order_relaxed) : nullptr;
  if (component == nullptr) {
    say("error: [host.internal] the process crashed outside of any plugin's call, with ");
    say(name_of(signal));
    say("; please report it\n");
    return;
  }
  const PluginContext& plugin = component->plugin->host.context();
  say("error: [plugin.crashed] ");
  say(component->kind);
  say(" \"");
  say(component->type);
  say("\" (plugin ");
  say(plugin.id);
  say(" ");
  say(plugin.version);
  say(", ");
  say(plugin.file);
  say("): ");
  say(slot->function.load(std::memory_order_relaxed));
  say(" crashed with ");
  say(name_of(signal));
  if (signal == SIGBUS) {
    say("; a memory-mapped file was truncated, or its disk failed");
  }
  say("; the process exits now\n");
}

// A fault occurs again after the handler returns, because SA_RESETHAND has removed the handler. A
// signal sent by a process does not, so it is raised again.
void end_by(int signal, siginfo_t* info, void*) {
  on_crash(signal);
  if (info == nullptr || info->si_code <= 0) {
    ::raise(signal);
  }
}

}  // namespace

void report_crashes() {
  // After a stack overflow, the handler needs a separate stack.
  static std::array<char, 1 << 16> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  for (const int signal : kCrashSignals) {
    struct sigaction old {};
    sigaction(signal, nullptr, &old);
    if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) {
      continue;
    }
    struct sigaction action {};
    action.sa_sigaction = end_by;
    action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND | SA_SIGINFO);
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace tenon
