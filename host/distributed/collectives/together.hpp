// SPDX-License-Identifier: Apache-2.0
//
// What can fail on some ranks alone, done so that it fails on all: before the loop begins, where
// ranks would otherwise wait for one that has gone. In the loop another rank's failure is detected
// by the collectives themselves.
// Invariant: after it all ranks continue, or all have the same error.
// Threads: the train thread
// alone.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/error/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace tenon {

// The error of another rank, or of this one if rank 0 reports it: whoever is last to handle it
// prints it where `is_told_here` alone.
class SharedFailure final : public Error {
 public:
  SharedFailure(const Error& error, bool is_told_here)
      : SharedFailure(error, is_told_here, error.exit_code()) {}
  SharedFailure(const Error& error, bool is_told_here, ExitCode code)
      : Error(error), is_told_here_(is_told_here), code_(code) {}
  bool is_told_here() const { return is_told_here_; }
  // With which all ranks end.
  ExitCode code() const { return code_; }
  // Whose error it is, where it is one rank's alone, and known.
  std::optional<uint32_t> lone_rank() const { return lone_rank_; }
  void set_lone_rank(uint32_t rank) { lone_rank_ = rank; }

 private:
  bool is_told_here_;
  ExitCode code_;
  std::optional<uint32_t> lone_rank_;
};

// Calls `body`, on all ranks. Where it throws an Error on any of them, all throw that of the first
// such rank, which its message names; rank 0 reports it. With one rank it is a plain call.
// Errors  SharedFailure; what the collective throws
void together(Collective& collective, std::string_view what, const std::function<void()>& body);

}  // namespace tenon
