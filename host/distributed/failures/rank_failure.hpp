// SPDX-License-Identifier: Apache-2.0
//
// What a run of many ranks failed of: which rank was first, and what became of it. Where no rank
// says so itself, it is found by what is known of all of them. Nothing is sent or waited for here.
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
    kThrew,    // an error, on that rank
    kDied,     // its process ended: a signal, or a status without a word
    kSilent,   // no heartbeat: stopped, dead, or cut off from the others
    kSlow,     // its heart beats, but the others wait for it
    kLeft,     // it has ended in order, and the others continue
    kNoStore,  // who keeps the store is gone, and `rank` is where it was noticed or kept
    kUnknown,  // all wait in one collective: no rank is to be named
  };

  Kind kind = Kind::kUnknown;
  uint32_t rank = 0;
  std::string error_id;   // of kThrew
  std::string text;       // kThrew: the error's text; else what is known
  int exit_code = 5;      // with which all ranks end
  RankActivity activity;  // of that rank

  // "rank 2 threw in step 3, at after_backward: [plugin.failed] ...": one line.
  std::string sentence() const;
  // True if `rank` is lost: it will not end in order.
  bool is_loss_of(uint32_t rank) const;
  // True if it is that rank's own, and not where it was noticed, or nobody's.
  bool is_of_its_rank() const;
};

// That of a rank whose error ends it. `is_begun`: its first step has begun, or that of any rank.
RankFailure failure_of(uint32_t rank, const Error& error, int exit_code, RankActivity activity);

// A process that has ended, as wait() reports it. Null if it is no failure: a status of 0, and
// one of 75 (stopped on request).
std::optional<RankFailure> failure_of_process(uint32_t rank, int wait_status);

// What one rank knows of another.
struct KnownRank {
  uint32_t rank = 0;
  std::optional<RankStatus> status;               // none: it has never reported
  double age = 0;                                 // seconds since its status was seen to change
  ProcessState process = ProcessState::kUnknown;  // of one that is silent
};

// Names the rank that others wait for, by what is known of all: one that has been silent for longer
// than `silent_after` seconds, the longest; else one that has not begun a collective in which
// others are, the furthest behind; else one that has left; else none.
RankFailure judge(std::span<const KnownRank> ranks, double silent_after);

std::string to_text(const RankFailure& failure);
// Errors  distributed.failed if it is none
RankFailure read_rank_failure(const std::string& text);

}  // namespace tenon
