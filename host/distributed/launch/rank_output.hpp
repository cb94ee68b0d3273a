// SPDX-License-Identifier: Apache-2.0
//
// Where the words of a rank go that has no terminal: into a pipe that the launcher reads, and from
// the moment on when the rank knows its log file, into that file. So nothing is lost: neither what
// is said before there is a file, nor what libraries and crashes print.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

// The rank's side: lines of the log, and what else is printed, go to `log_file` alone from here on.
//
// Errors   run.dir_unwritable
// Threads  [main]
void move_output_to(const std::string& log_file);

// The launcher's side: the end of what one rank has written.
// Threads: one at a time.
class RankOutput {
 public:
  static constexpr size_t kMaxBytes = 1 << 16;  // that are kept

  // Takes the pipe's read end. -1: this rank writes to the terminal, and nothing is read.
  explicit RankOutput(int pipe) : pipe_(pipe) {}
  ~RankOutput();
  RankOutput(RankOutput&& other) noexcept;
  RankOutput& operator=(RankOutput&&) = delete;
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  int pipe() const { return pipe_; }  // to be polled; -1 once it has ended
  // Reads what is there, without waiting.
  void read_available();
  // "" until the rank has one.
  const std::string& log_file() const { return log_file_; }
  // The last lines of the log file, or of the pipe if there is none yet.
  std::vector<std::string> last_lines(size_t count) const;

 private:
  void take(const std::string& text);
  void follow(const std::string& log_file);

  int pipe_ = -1;
  int file_ = -1;  // open, so that it can be read when its folder is gone
  std::string kept_;
  std::string log_file_;
};

}  // namespace tenon
