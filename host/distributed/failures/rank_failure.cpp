// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/rank_failure.hpp"

#include "host/distributed/failures/activity_json.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"

#include <nlohmann/json.hpp>

#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

// "signal 9 (SIGKILL)".
std::string signal_text(int signal) {
  const char* const name = sigabbrev_np(signal);
  return formatted("signal {}{}", signal, name != nullptr ? formatted(" (SIG{})", name) : "");
}

const SeenCollective* of_group(const RankStatus& status, const std::string& group) {
  for (const SeenCollective& seen : status.collectives) {
    if (seen.record.group == group) {
      return &seen;
    }
  }
  return nullptr;
}

// Returns the collective that `waiting` is in and `other` has not started; null if there is none.
const SeenCollective* missed_by(const KnownRank& other, const RankStatus& waiting) {
  for (const SeenCollective& seen : waiting.collectives) {
    if (seen.is_done() || (seen.record.peer.has_value() && *seen.record.peer != other.rank)) {
      continue;
    }
    const SeenCollective* const own = of_group(*other.status, seen.record.group);
    if (own == nullptr || own->record.number < seen.record.number) {
      return &seen;
    }
  }
  return nullptr;
}

const KnownRank* most_silent(std::span<const KnownRank> ranks, double silent_after) {
  const KnownRank* silent = nullptr;
  for (const KnownRank& known : ranks) {
    const bool is_over = known.status.has_value() && known.status->is_leaving;
    if (!is_over && known.age > silent_after && (silent == nullptr || known.age > silent->age)) {
      silent = &known;
    }
  }
  return silent;
}

struct Missed {
  const KnownRank* rank = nullptr;
  const SeenCollective* collective = nullptr;  // of the waiting ranks
  uint64_t number = 0;                         // of the rank's own last collective in that group
};

bool is_waiting(const RankStatus& status) {
  const SeenCollective* const last = status.last_collective();
  return last != nullptr && !last->is_done();
}

// Finds the rank that has missed a collective in which others are. Among several, prefers a rank
// that is not waiting in another collective, then the rank furthest behind, then the rank that has
// been in a plugin call for longest.
Missed furthest_behind(std::span<const KnownRank> ranks) {
  Missed worst;
  for (const KnownRank& known : ranks) {
    if (!known.status.has_value()) {
      continue;
    }
    for (const KnownRank& other : ranks) {
      if (!other.status.has_value() || &other == &known) {
        continue;
      }
      const SeenCollective* const collective = missed_by(known, *other.status);
      if (collective == nullptr) {
        continue;
      }
      const SeenCollective* const own = of_group(*known.status, collective->record.group);
      const uint64_t number = own != nullptr ? own->record.number : 0;
      const double seconds = known.status->activity.call_seconds;
      const bool waits = is_waiting(*known.status);
      const auto is_worse = [&] {
        if (worst.rank == nullptr) {
          return true;
        }
        const RankStatus& held = *worst.rank->status;
        if (waits != is_waiting(held)) {
          return !waits;
        }
        if (collective->record.group == worst.collective->record.group && number != worst.number) {
          return number < worst.number;
        }
        return seconds > held.activity.call_seconds;
      };
      if (is_worse()) {
        worst = {&known, collective, number};
      }
    }
  }
  return worst;
}

const SeenCollective* longest_wait(std::span<const KnownRank> ranks) {
  const SeenCollective* longest = nullptr;
  for (const KnownRank& known : ranks) {
    const SeenCollective* const last =
        known.status.has_value() ? known.status->last_collective() : nullptr;
    if (last != nullptr && !last->is_done() &&
        (longest == nullptr || last->seconds > longest->seconds)) {
      longest = last;
    }
  }
  return longest;
}

}  // namespace

std::string RankFailure::sentence() const {
  const std::string who = formatted("rank {}", rank);
  switch (kind) {
    case Kind::kThrew:
      return who + " failed " + activity.progress() + ": " + text;
    case Kind::kDied:
      if (!error_id.empty()) {  // the report of a crash says where
        return who + " " + text;
      }
      [[fallthrough]];
    case Kind::kSilent:
    case Kind::kLeft:
      return who + " " + text + "; it was last seen " + activity.text();
    case Kind::kSlow:
      return who + " " + text + "; it is " + activity.text();
    case Kind::kNoStore:
    case Kind::kUnknown:
      return text;
  }
  return text;
}

RankFailure failure_of(uint32_t rank, const Error& error, int exit_code, RankActivity activity) {
  return {
      RankFailure::Kind::kThrew, rank, error.id(), error.what(), exit_code, std::move(activity)};
}

std::optional<RankFailure> failure_of_process(uint32_t rank, int wait_status) {
  RankFailure failure;
  failure.kind = RankFailure::Kind::kDied;
  failure.rank = rank;
  if (WIFSIGNALED(wait_status)) {
    failure.text = "was killed by " + signal_text(WTERMSIG(wait_status));
    return failure;
  }
  const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
  if (code == static_cast<int>(ExitCode::kDone) || code == static_cast<int>(ExitCode::kStopped)) {
    return std::nullopt;
  }
  failure.text = formatted("exited with status {}", code);
  const bool is_own = code <= static_cast<int>(ExitCode::kNonFinite) && code > 1;
  failure.exit_code = is_own ? code : static_cast<int>(ExitCode::kFailed);
  return failure;
}

std::string RankFailure::id() const {
  return kind == Kind::kNoStore && !error_id.empty() ? error_id : "distributed.failed";
}

bool RankFailure::is_loss_of(uint32_t other) const {
  return rank == other && (kind == Kind::kDied || kind == Kind::kSilent);
}

bool RankFailure::is_of_its_rank() const {
  return kind == Kind::kThrew || kind == Kind::kDied || kind == Kind::kSilent ||
         kind == Kind::kSlow;
}

RankFailure judge(std::span<const KnownRank> ranks, double silent_after) {
  RankFailure failure;
  const auto name = [&](RankFailure::Kind kind, const KnownRank& known, std::string text) {
    failure.kind = kind;
    failure.rank = known.rank;
    failure.text = std::move(text);
    if (known.status.has_value()) {
      failure.activity = known.status->activity;
    }
    return failure;
  };
  if (const KnownRank* const silent = most_silent(ranks, silent_after)) {
    return name(RankFailure::Kind::kSilent,
                *silent,
                (silent->status.has_value()
                     ? "has not answered for " + seconds_text(silent->age) + " or longer"
                     : std::string("never reported its status")) +
                    ": " + silence_text(silent->process));
  }
  const SeenCollective* const wait = longest_wait(ranks);
  if (const Missed missed = furthest_behind(ranks); missed.rank != nullptr) {
    return name(RankFailure::Kind::kSlow,
                *missed.rank,
                "is slow: others wait for it in " + missed.collective->text());
  }
  for (const KnownRank& known : ranks) {
    if (known.status.has_value() && known.status->is_leaving && !is_waiting(*known.status)) {
      return name(RankFailure::Kind::kLeft,
                  known,
                  "exited normally while other ranks continue" +
                      (wait != nullptr ? " (" + wait->text() + ")" : std::string()));
    }
  }
  failure.text = "the failed rank is unknown: all ranks answer, and " +
                 (wait != nullptr ? "all wait in " + wait->text() : std::string("none waits")) +
                 "; messages are lost, or the sizes of their collectives differ (set "
                 "parallel.check_collectives to find out)";
  return failure;
}

std::string to_text(const RankFailure& failure) {
  const json text = {{"kind", static_cast<int>(failure.kind)},
                     {"rank", failure.rank},
                     {"error_id", failure.error_id},
                     {"text", failure.text},
                     {"exit_code", failure.exit_code},
                     {"doing", activity_json(failure.activity)}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

RankFailure read_rank_failure(const std::string& text) {
  try {
    const json read = json::parse(text);
    RankFailure failure;
    const auto kind = read.at("kind").get<unsigned>();
    failure.kind = kind <= static_cast<unsigned>(RankFailure::Kind::kUnknown)
                       ? static_cast<RankFailure::Kind>(kind)
                       : RankFailure::Kind::kUnknown;
    failure.rank = read.at("rank");
    failure.error_id = read.at("error_id");
    failure.text = read.at("text");
    failure.exit_code = read.at("exit_code");
    failure.activity = read_activity(read.at("doing"));
    return failure;
  } catch (const json::exception& error) {
    throw Error("distributed.failed",
                std::string("cannot read a failure record from the store: ") + error.what());
  }
}

}  // namespace tenon
