// SPDX-License-Identifier: Apache-2.0
//
// How the next token is chosen, and where texts end besides their end tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct Sampling {
  double temperature = 0;  // divides the logits; 0: the most likely token
  int64_t top_k = 0;       // only the k most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens that together have this probability
  uint64_t seed = 1;
  double repetition_penalty = 1;  // makes tokens of the prompt and the text less likely; 1: off
  std::vector<std::string> stop = {};  // a text ends before the first of these
  // The text begins by itself, as an answer in a chat; otherwise it continues that of the prompt.
  bool is_answer = false;

  bool operator==(const Sampling&) const = default;
};

}  // namespace tenon
