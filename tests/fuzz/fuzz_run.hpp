// SPDX-License-Identifier: Apache-2.0
//
// The main function of a fuzz program: many cases from one seed, each judged, and the one that
// fails kept. Every case can be made again from the seed and its number alone.
//
//     recipe_fuzz [--cases N] [--seed S]     run N cases (10000) of the seed S (1)
//     recipe_fuzz --case K [--seed S]        run only the Kth, and print what comes of it
//     recipe_fuzz --input FILE               run what a file holds: one that was kept
//
// Whatever ends the program in the middle of a case (a sanitizer, an abort, a case that takes too
// long, an exception, a FuzzFinding) writes the case into fuzz-findings/ beside the program, and
// prints how to run it again. Exit status: 0 if all went well. Threads: one.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "tests/fuzz/mutator.hpp"

namespace tenon {

// What must not be: an error without an id, a message that is no text.
class FuzzFinding : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct FuzzTarget {
  std::string name;

  // A new case.
  std::function<std::string(Mutator&)> make;

  // What becomes of a case, in a word to count: "accepted", or the id of an error.
  //
  // Errors   FuzzFinding
  std::function<std::string(const std::string& input)> judge;

  // The least share of cases that must be accepted: mutations that are refused at the door test the
  // door alone.
  double least_accepted = 0.01;

  // A case must be done within these seconds of processor time.
  int max_seconds = 20;
};

// What judge() returns where nothing was wrong with the case.
inline constexpr char kFuzzAccepted[] = "accepted";

int run_fuzz(int argc, char** argv, const FuzzTarget& target);

// What is true of every error that a user meets.
//
// Errors   FuzzFinding where the message is empty, no UTF-8, or longer than a screen could show
void check_fuzz_message(const std::string& id, const std::string& message);

}  // namespace tenon
