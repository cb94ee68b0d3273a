// SPDX-License-Identifier: Apache-2.0
//
// What a reader of the host may do with bad input: throw a tenon::Error of the catalogue with a
// message in valid text. Any other exception passes through, and is a finding.
#pragma once

#include "host/error/error.hpp"

#include <string>

#include "tests/fuzz/fuzz_run.hpp"

namespace tenon {

// Returns the id of an error.
// Errors   FuzzFinding if the id is not in the catalogue, or if the message is no text
std::string judge_error(const Error& error);

// Runs `read`. Returns kFuzzAccepted, or the id of its error.
template <class Read>
std::string outcome_of(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    return judge_error(error);
  }
  return kFuzzAccepted;
}

}  // namespace tenon
