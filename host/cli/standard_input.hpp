// SPDX-License-Identifier: Apache-2.0
//
// Text on the program's standard input.
// Threads: [main].
#pragma once

#include <optional>
#include <string>

namespace tenon {

// Reads all of the standard input, without one newline at its end. If it is a terminal, logs how to
// end the input. `what` names the text, for messages.
//
// Errors   usage.bad_option for a text that is not UTF-8 or has more than 64 MB; storage.io
std::string read_standard_input(const std::string& what);

// Reads the standard input line by line, as soon as a line arrives.
class InputLines {
 public:
  // Returns the next line without its end; none at the end of the input. If the standard input is a
  // terminal, first prints `prompt` on the standard error.
  //
  // Errors   usage.bad_option for a line that is not UTF-8 or has more than 64 MB; storage.io
  std::optional<std::string> next(const std::string& prompt);

 private:
  std::string rest_;  // read, but not returned
  bool is_over_ = false;
};

}  // namespace tenon
