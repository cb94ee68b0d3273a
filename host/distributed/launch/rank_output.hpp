// SPDX-License-Identifier: Apache-2.0
//
// The output of a rank without a terminal: first a pipe that the launcher reads, and from the time
// when the rank knows its log file, that file. So nothing is lost: neither output before the file
// exists, nor output of libraries and crashes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

// The rank's side: from here on, log lines and all other output go to `log_file` only.
//
// Errors   run.dir_unwritable
// Threads  [main]
void move_output_to(const std::string& log_file);

// The launcher's side: the last output of one rank.
// Threads: one at a time.
class RankOutput {
 public:
  static constexpr size_t kMaxBytes = 1 << 16;  // kept in memory

  // Takes ownership of the pipe's read end. -1: this rank writes to the terminal, and nothing is
  // read.
  explicit RankOutput(int pipe) : pipe_(pipe) {}
  ~RankOutput();
  RankOutput(RankOutput&& other) noexcept;
  RankOutput& operator=(RankOutput&&) = delete;
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  int pipe() const { return pipe_; }  // to poll; -1 once it is closed
  // Reads the available output, without waiting.
  void read_available();
  // Returns "" until the rank has a log file.
  const std::string& log_file() const { return log_file_; }
  // Returns the last lines of the log file, or of the pipe if there is no file yet.
  std::vector<std::string> last_lines(size_t count) const;

 private:
  void take(const std::string& text);
  void follow(const std::string& log_file);

  int pipe_ = -1;
  int file_ = -1;  // kept open, so that it can be read if its folder is deleted
  std::string kept_;
  std::string log_file_;
};

}  // namespace tenon
