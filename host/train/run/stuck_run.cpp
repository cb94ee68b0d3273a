// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/stuck_run.hpp"

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace tenon {
namespace {

// Arguments of the signal handler.
int last_code = 0;
const char* last_words = "";
size_t last_words_size = 0;

void on_grace_over(int) {
  // Calls only async-signal-safe functions. Does not wait if stderr hangs.
  const int flags = ::fcntl(STDERR_FILENO, F_GETFL);
  ::fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
  (void)!::write(STDERR_FILENO, last_words, last_words_size);
  ::fcntl(STDERR_FILENO, F_SETFL, flags);  // other processes share the terminal
  ::_exit(last_code);
}

}  // namespace

void end_after_grace(const std::string& text, int code, unsigned seconds) {
  static std::string words;  // the handler may read it until the process ends
  words = printable_text(text) + "\n";
  last_code = code;
  last_words = words.c_str();
  last_words_size = words.size();
  struct sigaction action {};
  action.sa_handler = &on_grace_over;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  ::alarm(seconds);
}

void end_stuck_run(const StuckCall& call,
                   const PublishedState& published,
                   const std::function<bool(const Error& error, int code)>& conclude) {
  const bool is_data = call.component->kind == "dataset";
  const std::string key = is_data ? "data.timeout_seconds" : "plugins.timeout_seconds";
  const std::string when = published.has_begun() ? formatted("in step {}", published.get().step)
                                                 : "before the first step";
  const Error error("plugin.stuck",
                    call.describe() + ", " + when +
                        "; a call cannot be cancelled, so the run ends here. If it only is slow, "
                        "set " +
                        key + " to more");
  const int code = static_cast<int>(published.has_begun() ? ExitCode::kFailed : error.exit_code());
  end_after_grace(error.what(), code, kGraceSeconds);
  if (conclude && conclude(error, code)) {
    log_to_file(error.what());
  } else {
    log_error(error.what());
  }
  flush_log();
  // Runs no destructors and no plugins: they might wait for the call that does not return.
  ::_exit(code);
}

}  // namespace tenon
