// SPDX-License-Identifier: Apache-2.0
//
// The host's log: lines for people, on the terminal (stderr) and in log.txt in the run folder. Not
// for progress, which the metrics folder shows, and not for numbers that programs read.
// Invariants: logging a line never throws and never ends a run, even if the disk is full. Lines
// logged before the file is attached are replayed into it, so that log.txt covers the whole run.
// Threads: any.
//
// There is one log per process, because errors must be logged from anywhere, including threads of
// plugins.

#pragma once

#include <string>
#include <string_view>

namespace tenon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogSetup {
  LogLevel level = LogLevel::kInfo;  // lines below it are dropped
  bool terminal = true;              // write to stderr, with colors if it is a terminal
  std::string file = {};             // "": no file yet; see attach_log_file
  int rank = 0;                      // above 0: only warnings and errors go to the terminal
  // If above 1, lines have the prefix "[rank N] ".
  int num_ranks = 1;
};

// Configures the log. A later call replaces the configuration: it closes the file and drops waiting
// lines. Before the first call, lines of level info and above go to the terminal.
//
// Errors   run.dir_unwritable if `file` cannot be opened for appending
void set_up_log(const LogSetup& setup);

// Opens `path` for appending and writes the waiting lines to it, with their original times.
//
// Errors   run.dir_unwritable
void attach_log_file(const std::string& path);

// Stops writing to the terminal; later lines go only to the file.
void stop_terminal_log();

// Writes one line; `text` may contain line breaks. Debug lines may stay in a buffer. Lines of other
// levels are handed to the operating system before the call returns.
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

// Writes a line of level info only to the file, regardless of LogSetup::level. For content that the
// terminal shows in another form (header, progress, outcome), so that log.txt covers the whole run.
void log_to_file(std::string_view text) noexcept;

// Records that the terminal shows a status line without an end. The next line on the same terminal
// erases it.
void set_status_line(bool is_shown) noexcept;
// True if the status line is still there.
bool has_status_line() noexcept;

// True if lines of this level are written. Lets callers avoid building lines that would be dropped.
bool is_logged(LogLevel level) noexcept;

// Hands buffered lines to the operating system.
void flush_log() noexcept;

// Returns the number of lines that could not be written since set_up_log, for example because of a
// full disk or a closed terminal.
long num_lost_log_lines() noexcept;

// "debug", "info", "warning", "error".
std::string_view log_level_name(LogLevel level) noexcept;

}  // namespace tenon
