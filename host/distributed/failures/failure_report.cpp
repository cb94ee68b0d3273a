// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/failure_report.hpp"

#include "host/distributed/failures/activity_json.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"

#include <nlohmann/json.hpp>

#include <ctime>

namespace tenon {
namespace {

using nlohmann::ordered_json;

constexpr size_t kToldRanks = 16;

const char* kind_name(RankFailure::Kind kind) {
  switch (kind) {
    case RankFailure::Kind::kThrew:
      return "threw";
    case RankFailure::Kind::kDied:
      return "died";
    case RankFailure::Kind::kSilent:
      return "silent";
    case RankFailure::Kind::kSlow:
      return "slow";
    case RankFailure::Kind::kLeft:
      return "left";
    case RankFailure::Kind::kNoStore:
      return "no_store";
    case RankFailure::Kind::kUnknown:
      return "unknown";
  }
  return "";
}

ordered_json collectives_json(const std::vector<SeenCollective>& collectives) {
  ordered_json list = ordered_json::array();
  for (const SeenCollective& seen : collectives) {
    list.push_back({{"group", seen.record.group},
                    {"number", seen.record.number},
                    {"kind", seen.record.kind},
                    {"what", seen.record.what},
                    {"bytes", seen.record.bytes},
                    {"state", state_name(seen.record.state)},
                    {"seconds_ago", seen.seconds}});
  }
  return list;
}

// "rank 0: in step 3, at before_forward; shard 12: all_gather of ..."
std::string line_of(const KnownRank& known) {
  std::string text = formatted("  rank {}: ", known.rank);
  if (!known.status.has_value()) {
    return text + "never reported its status\n";
  }
  text += known.status->activity.text();
  if (const SeenCollective* const last = known.status->last_collective()) {
    text += "; " + last->text();
  }
  if (known.age >= 2) {
    text += " (" + seconds_text(known.age) + " ago)";
  }
  return text + "\n";
}

}  // namespace

std::string utc_time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string to_json_text(const RankRecord& record) {
  ordered_json text;
  text["rank"] = record.rank;
  text["world_size"] = record.world_size;
  text["machine"] = record.status.machine;
  text["pid"] = record.status.process.pid;
  text["time"] = record.time;
  text["written_by"] = record.written_by;
  text["exit_code"] = record.exit_code;
  text["error_id"] = record.error_id;
  text["error"] = record.error;
  text["doing"] = activity_json(record.status.activity);
  text["seconds_since_heard"] = record.status_age;
  text["first_failure"] = {{"rank", record.first.rank},
                           {"kind", kind_name(record.first.kind)},
                           {"error_id", record.first.error_id},
                           {"text", record.first.text},
                           {"sentence", record.first.sentence()},
                           {"doing", activity_json(record.first.activity)}};
  text["last_of_groups"] = collectives_json(record.status.collectives);
  text["last_collectives"] = collectives_json(record.last_collectives);
  return text.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string report_text(const RankFailure& first,
                        std::span<const KnownRank> ranks,
                        const std::string& folder) {
  std::string text = "[" + first.id() + "] " + first.sentence() + "\n";
  const bool is_named = first.kind != RankFailure::Kind::kUnknown;
  size_t num_told = 0;
  for (const KnownRank& known : ranks) {
    const bool is_first = is_named && known.rank == first.rank;
    // The failed rank always gets a line.
    const size_t reserved = is_named && known.rank < first.rank ? 1 : 0;
    if (is_first || num_told + reserved < kToldRanks) {
      text += line_of(known);
      ++num_told;
    }
  }
  if (num_told < ranks.size()) {
    text += formatted("  and {} more ranks\n", ranks.size() - num_told);
  }
  if (!folder.empty()) {
    text += "records of all ranks: " + folder + "\n";
  }
  return text;
}

}  // namespace tenon
