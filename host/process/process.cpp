// SPDX-License-Identifier: Apache-2.0
#include "host/process/process.hpp"

#include "host/error/assert.hpp"
#include "host/error/plugin_text.hpp"
#include "host/process/crash_report.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <unistd.h>

namespace tenon {
namespace {

std::atomic<bool> exists = false;

// Opens standard streams that are closed, so that no file of the program gets their descriptor and
// with it all that is printed. Reading or printing still fails.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      (void)!::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

// Arguments of on_grace_over().
int last_code = 0;
const char* last_words = "";
std::size_t last_words_size = 0;

void on_grace_over(int) {
  // Calls only async-signal-safe functions. Does not wait if stderr hangs.
  const int flags = ::fcntl(STDERR_FILENO, F_GETFL);
  ::fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
  (void)!::write(STDERR_FILENO, last_words, last_words_size);
  ::fcntl(STDERR_FILENO, F_SETFL, flags);  // other processes share the terminal
  ::_exit(last_code);
}

}  // namespace

Process::Process() {
  TENON_ASSERT(!exists.exchange(true), "a process has one Process object");
  keep_standard_streams();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &old_[i]);
  }
  // Makes a failed write return an error with its reason: neither a file size limit nor a closed
  // terminal ends a run.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // SIGUSR1 requests a checkpoint. Before a run handles the signal, SIGUSR1 must not end this
  // process or a rank that it starts.
  std::signal(SIGUSR1, SIG_IGN);
  report_crashes();
}

Process::~Process() {
  witness_.reset();
  ::alarm(0);
  stop_reporting_crashes();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &old_[i], nullptr);
  }
  exists = false;
}

std::unique_ptr<ComputeSettings> Process::compute_settings() {
  return std::make_unique<ComputeSettings>();
}

std::unique_ptr<SignalWatch> Process::watch_signals(SignalWatch::Second second) {
  return std::make_unique<SignalWatch>(second);
}

void Process::report_crashes_of(uint32_t rank, uint32_t num_ranks) {
  tenon::report_crashes_of(rank, num_ranks);
}

void Process::start_witness() {
  witness_.emplace();
}

void Process::end_witness() {
  witness_.reset();
}

void Process::end(int code) {
  end_process(code);
}

void Process::end_at_once(int code) {
  ::_exit(code);
}

void Process::end_by_signal(int signal) {
  tenon::end_by_signal(signal);
}

void Process::end_after_grace(const std::string& text, int code, unsigned seconds) {
  static std::string words;  // the handler may read it until the process ends
  words = printable_text(text) + "\n";
  last_code = code;
  last_words = words.c_str();
  last_words_size = words.size();
  struct sigaction action {};
  action.sa_handler = &on_grace_over;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(seconds);
}

}  // namespace tenon
