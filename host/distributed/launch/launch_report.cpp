// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/launch_report.hpp"

#include "host/error/crash_page.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

constexpr const char* kName = "the launcher";

// Returns true for errors that the ranks have already shared, before the first step.
bool is_agreed(const RankFailure& end) {
  return end.exit_code == static_cast<int>(ExitCode::kUsage) ||
         end.exit_code == static_cast<int>(ExitCode::kRecipe) ||
         end.exit_code == static_cast<int>(ExitCode::kPlugin);
}

// Returns the failure that the end of a rank is; none if it ended as it was meant to.
std::optional<RankFailure> failure_of_end(const EndedRank& end) {
  std::optional<RankFailure> failure = failure_of_process(end.rank, end.status);
  if (!failure.has_value() && !end.has_ended) {
    failure = RankFailure{.kind = RankFailure::Kind::kDied,
                          .rank = end.rank,
                          .error_id = {},
                          .text = formatted("exited with status {} before the run ended", end.code),
                          .exit_code = static_cast<int>(ExitCode::kFailed),
                          .activity = {}};
  }
  if (failure.has_value() && !end.report.empty()) {
    failure->error_id = id_of_report(end.report);
    failure->text = "ended: " + end.report;
  }
  return failure;
}

}  // namespace

LaunchReport::LaunchReport(std::unique_ptr<Store> store, uint32_t num_ranks)
    : store_(std::move(store)), run_(*store_), num_ranks_(num_ranks) {
  run_.claim_report(kName);
}

EndVerdict LaunchReport::note_end(const EndedRank& end) {
  ended_[end.rank] = end;
  try {
    if (!first_.has_value()) {
      first_ = run_.first();
    }
    const std::optional<RankFailure> failure = failure_of_end(end);
    const bool is_own_doing = end.was_ended || !failure.has_value() ||
                              (end.report.empty() && end.has_ended && is_agreed(*failure));
    // Only a parent learns how a process ended: to the other ranks, it is silent.
    const bool is_known_as_silent = first_.has_value() &&
                                    first_->kind == RankFailure::Kind::kSilent &&
                                    first_->rank == end.rank;
    if (is_known_as_silent && end.signal != 0 && !is_own_doing) {
      const RankActivity last_seen = first_->activity;
      first_ = *failure;
      first_->activity = last_seen;
    }
    if (!first_.has_value() && !is_own_doing) {
      RankFailure declared = *failure;
      if (const std::optional<RankStatus> status = run_.status(end.rank)) {
        declared.activity = status->activity;
      }
      if (end.step > declared.activity.step) {  // the status is some time old
        declared.activity = {.step = end.step};
      }
      first_ = run_.declare(declared);
    }
  } catch (const Error&) {  // the store is in this process: probably no descriptors are left
    return {};
  }
  EndVerdict verdict;
  verdict.has_failed = first_.has_value();
  // It hangs: nobody waits for it any more.
  if (first_.has_value() && first_->kind == RankFailure::Kind::kSilent) {
    verdict.lost = first_->rank;
  }
  return verdict;
}

std::optional<LaunchReport::Failed> LaunchReport::collect() {
  if (!first_.has_value()) {
    return std::nullopt;
  }
  Failed failed;
  failed.first = *first_;
  try {
    failed.ranks = run_.ranks(num_ranks_);
    failed.folder = run_.folder();
    for (const KnownRank& known : failed.ranks) {
      if (run_.has_record(known.rank)) {
        continue;
      }
      RankRecord record = record_of_lost(known, num_ranks_, failed.first, kName);
      if (const auto end = ended_.find(known.rank); end != ended_.end()) {
        record.error = rank_end_text(end->second);
      }
      failed.lost.push_back(std::move(record));
    }
  } catch (const Error&) {  // report the launcher's own observations
  }
  const auto end = ended_.find(failed.first.rank);
  if (failed.first.kind == RankFailure::Kind::kDied && end != ended_.end()) {
    failed.last_words = rank_end_text(end->second);
  }
  return failed;
}

std::string LaunchReport::folder() {
  try {
    return run_.folder();
  } catch (const Error&) {
    return "";
  }
}

std::optional<uint32_t> LaunchReport::failed_early() {
  try {
    return run_.early_failure();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace tenon
