// SPDX-License-Identifier: Apache-2.0
//
// How the next token is chosen.
#pragma once

#include <cstdint>

namespace tenon {

struct Sampling {
  double temperature = 0;  // divides the logits; 0: the most likely token
  int64_t top_k = 0;       // only the k most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens that together have this probability
  uint64_t seed = 1;

  bool operator==(const Sampling&) const = default;
};

}  // namespace tenon
