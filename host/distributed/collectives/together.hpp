// SPDX-License-Identifier: Apache-2.0
//
// Runs code that can fail on some ranks only, and makes it fail on all ranks. For use before the
// loop starts: ranks would otherwise wait for a rank that has exited. In the loop, the collectives
// themselves detect the failure of another rank.
// Invariant: afterwards, all ranks continue, or all have the same error.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/error/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace tenon {

// An error of this or another rank, which all ranks throw. Its last handler prints it only if
// `is_printed_here` is true.
class SharedFailure final : public Error {
 public:
  SharedFailure(const Error& error, bool is_printed_here)
      : SharedFailure(error, is_printed_here, error.exit_code()) {}
  SharedFailure(const Error& error, bool is_printed_here, ExitCode code)
      : Error(error), is_printed_here_(is_printed_here), code_(code) {}
  bool is_printed_here() const { return is_printed_here_; }
  // Returns the exit code of all ranks.
  ExitCode code() const { return code_; }
  // Returns the rank that caused the error, if it is known, and no other rank failed.
  std::optional<uint32_t> lone_rank() const { return lone_rank_; }
  void set_lone_rank(uint32_t rank) { lone_rank_ = rank; }

 private:
  bool is_printed_here_;
  ExitCode code_;
  std::optional<uint32_t> lone_rank_;
};

// Calls `body` on all ranks. If it throws on any rank, all ranks throw the error of the first such
// rank; the message names that rank unless it is rank 0. Rank 0 reports the error. With one rank,
// this is a plain call.
// Errors  SharedFailure; errors of the collective
void together(Group& ranks, std::string_view what, const std::function<void()>& body);

// Like together(), for a body that may take longer on one rank than the time limit of collectives:
// until all ranks are done, they report to each other that they still work. `body` must not use
// `collective`, which another thread uses meanwhile.
void together_for_long(Group& ranks, std::string_view what, const std::function<void()>& body);

}  // namespace tenon
