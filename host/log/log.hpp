// SPDX-License-Identifier: Apache-2.0
//
// The host's log: lines for people, on the terminal (stderr) and in the run folder's log.txt.
// It is not for progress (the metrics folder draws that) and not for numbers a program reads.
// Invariants: logging never throws and never ends a run, not even on a full disk; lines written
// before the file is attached are replayed into it, so that log.txt covers the whole run.
// Threads: every function may be called from any thread, except where it says otherwise.
//
// The log is the one piece of process-wide state of the host: a line has to be possible from
// wherever something goes wrong, a plugin's thread included.

#pragma once

#include <string>
#include <string_view>

namespace tenon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogSetup {
  LogLevel level = LogLevel::kInfo;  // lines below it are dropped
  bool terminal = true;              // write to stderr; with colours where it is a terminal
  std::string file = {};             // "" for none yet; see attach_log_file
  int rank = 0;
  // Where above 1, lines carry a "[rank N] " prefix, and those of ranks but the first are shown on
  // the terminal from warnings on.
  int world_size = 1;
};

// Sets the log up, and again if called again (an attached file is closed, waiting lines are
// dropped). Before the first call lines of level info and above go to the terminal.
//
// Errors   run.dir_unwritable if `file` cannot be opened for appending
void set_up_log(const LogSetup& setup);

// Opens `path` for appending and writes the lines logged so far into it, with their own times.
//
// Errors   run.dir_unwritable
void attach_log_file(const std::string& path);

// Lines go to the file alone from here on.
void stop_terminal_log();

// Writes one line; `text` may hold line breaks. Debug lines may stay in a
// buffer; a line of any higher level is with the operating system when the call returns.
void log(LogLevel level, std::string_view text) noexcept;

inline void log_debug(std::string_view text) noexcept {
  log(LogLevel::kDebug, text);
}
inline void log_info(std::string_view text) noexcept {
  log(LogLevel::kInfo, text);
}
inline void log_warning(std::string_view text) noexcept {
  log(LogLevel::kWarning, text);
}
inline void log_error(std::string_view text) noexcept {
  log(LogLevel::kError, text);
}

// Writes a line of level info into the file alone: for what the terminal shows in its own form
// (header, progress, outcome), so that log.txt covers the whole run, whatever the level.
void log_to_file(std::string_view text) noexcept;

// True if a line of this level would be written: to spare the work of building one.
bool is_logged(LogLevel level) noexcept;

// Hands what is buffered to the operating system.
void flush_log() noexcept;

// Lines that could not be written (a full disk, a closed terminal) since set_up_log.
long num_lost_log_lines() noexcept;

// "debug", "info", "warning", "error".
std::string_view log_level_name(LogLevel level) noexcept;

}  // namespace tenon
