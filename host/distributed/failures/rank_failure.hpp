// SPDX-License-Identifier: Apache-2.0
//
// The failure of a run with several ranks: which rank failed first, and how. If no rank reports its
// failure, it is derived from the last statuses of all ranks. Nothing is sent or waited for here.
#pragma once

#include "host/distributed/failures/rank_status.hpp"
#include "host/error/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon {

struct RankFailure {
  enum class Kind {
    kThrew,    // the rank threw an error
    kDied,     // its process ended by a signal, or with a failing exit status, and without a report
    kSilent,   // no heartbeat: stopped, dead, or cut off from the other ranks
    kSlow,     // it sends heartbeats, but other ranks wait for it
    kLeft,     // it has ended normally, and other ranks continue
    kNoStore,  // the store is lost or was tampered with; `rank` noticed it
    kUnknown,  // no rank can be named: for example, all wait in one collective
  };

  Kind kind = Kind::kUnknown;
  uint32_t rank = 0;
  // For kThrew, for kDied with a report of a crash, and for kNoStore with a store that was tampered
  // with; otherwise "".
  std::string error_id;
  std::string text;       // kThrew: the error's text; otherwise a description
  int exit_code = 5;      // of all ranks
  RankActivity activity;  // of the failed rank

  // Returns one line: "rank 2 failed in step 3, at after_backward: [plugin.failed] ...".
  std::string sentence() const;
  // Returns the id under which ranks report that the run failed.
  std::string id() const;
  // Returns true if `rank` is lost: it will not end normally.
  bool is_loss_of(uint32_t rank) const;
  // Returns true if `rank` itself failed, and did not merely notice the failure or end normally.
  bool is_of_its_rank() const;
};

// Returns the failure of a rank that `error` ends.
RankFailure failure_of(uint32_t rank, const Error& error, int exit_code, RankActivity activity);

// Returns the failure of a process that has ended, from the status of wait(). Null if it is no
// failure: exit status 0, or 75 (stopped on request).
std::optional<RankFailure> failure_of_process(uint32_t rank, int wait_status);

// The state of one rank, as known to this process.
struct KnownRank {
  uint32_t rank = 0;
  std::optional<RankStatus> status;               // none: it has never reported
  double age = 0;                                 // seconds since its status last changed
  ProcessState process = ProcessState::kUnknown;  // checked only for a silent rank
};

// Names the rank for which others wait, from the state of all ranks. First choice: the rank silent
// for longest, if for more than `silent_after` seconds. Then the rank furthest behind that has not
// started a collective in which others wait. Then a rank that has left; otherwise none.
RankFailure judge(std::span<const KnownRank> ranks, double silent_after);

std::string to_text(const RankFailure& failure);
// Errors  distributed.failed if the text is not a failure
RankFailure read_rank_failure(const std::string& text);

}  // namespace tenon
