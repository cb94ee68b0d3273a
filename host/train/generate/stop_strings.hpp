// SPDX-License-Identifier: Apache-2.0
//
// Ends a text before the first of some strings. The text arrives in pieces, and the string may lie
// in several of them, so text that may be its start is held back.
// Threads: one at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tenon {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  // Returns the text that can be printed after another piece; often "". After a string was found,
  // returns the text before it, and then nothing more.
  std::string push(const std::string& piece);
  // Returns the text that was held back, unless a string was found.
  std::string finish();
  bool is_found() const { return is_found_; }

 private:
  std::vector<std::string> strings_;  // not ""
  std::string held_;
  bool is_found_ = false;
};

}  // namespace tenon
