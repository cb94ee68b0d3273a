// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/failed_run.hpp"

#include <charconv>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

constexpr const char* kFirst = "failure/first";
constexpr const char* kJudge = "failure/judge";
constexpr const char* kClaimOfFirst = "failure/claim_of_first";
constexpr const char* kReporter = "failure/reporter";
constexpr const char* kNumRecords = "failure/num_records";
constexpr const char* kNumLeft = "failure/num_left";
constexpr const char* kEarly = "failure/early";
constexpr const char* kFolder = "run/folder";

std::string key_of(const char* what, uint32_t rank) {
  return what + std::to_string(rank);
}

}  // namespace

RankFailure FailedRunStore::declare(const RankFailure& failure) {
  return read_rank_failure(store_.set_once(kFirst, to_text(failure)));
}

std::optional<RankFailure> FailedRunStore::first() {
  const std::optional<std::string> text = store_.find(kFirst);
  return text.has_value() ? std::optional(read_rank_failure(*text)) : std::nullopt;
}

void FailedRunStore::set_status(uint32_t rank, const RankStatus& status) {
  store_.set(key_of("status/", rank), to_text(status));
}

std::optional<RankStatus> FailedRunStore::status(uint32_t rank) {
  const std::optional<std::string> text = store_.find(key_of("status/", rank));
  return text.has_value() ? std::optional(read_rank_status(*text)) : std::nullopt;
}

bool FailedRunStore::claim(const char* key, const std::string& who) {
  return store_.set_once(key, who) == who;
}

bool FailedRunStore::claim_judging(const std::string& who) {
  return claim(kJudge, who);
}

bool FailedRunStore::claim_first(const std::string& who) {
  return claim(kClaimOfFirst, who);
}

bool FailedRunStore::claim_report(const std::string& who) {
  return claim(kReporter, who);
}

bool FailedRunStore::is_report_claimed() {
  return store_.find(kReporter).has_value();
}

void FailedRunStore::add_record(uint32_t rank) {
  store_.set(key_of("failure/record/", rank), "1");
  store_.add(kNumRecords, 1);
}

bool FailedRunStore::has_record(uint32_t rank) {
  return store_.find(key_of("failure/record/", rank)).has_value();
}

int64_t FailedRunStore::num_records() {
  return store_.add(kNumRecords, 0);
}

void FailedRunStore::leave() {
  store_.add(kNumLeft, 1);
}

int64_t FailedRunStore::num_left() {
  return store_.add(kNumLeft, 0);
}

void FailedRunStore::set_early_failure(uint32_t rank) {
  store_.set(kEarly, std::to_string(rank));
}

std::optional<uint32_t> FailedRunStore::early_failure() {
  const std::string text = store_.find(kEarly).value_or("");
  uint32_t rank = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), rank);
  return read.ec == std::errc() ? std::optional(rank) : std::nullopt;
}

void FailedRunStore::set_folder(const std::string& folder) {
  store_.set(kFolder, folder);
}

std::string FailedRunStore::folder() {
  return store_.find(kFolder).value_or("");
}

std::vector<KnownRank> FailedRunStore::ranks(uint32_t world_size) {
  std::vector<KnownRank> ranks;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    ranks.push_back({rank, status(rank), 0});
  }
  return ranks;
}

RankRecord record_of_lost(const KnownRank& known,
                          uint32_t world_size,
                          const RankFailure& first,
                          const std::string& written_by) {
  RankRecord record;
  record.rank = known.rank;
  record.world_size = world_size;
  record.written_by = written_by;
  record.first = first;
  record.error = first.rank == known.rank ? first.text : "no reason was reported";
  record.exit_code = first.exit_code;
  record.time = utc_time_text();
  record.status = known.status.value_or(RankStatus{});
  record.status_age = known.age;
  record.last_collectives = record.status.collectives;
  return record;
}

}  // namespace tenon
