// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/rank_status.hpp"

#include "host/distributed/failures/activity_json.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

json collective_json(const SeenCollective& seen) {
  const CollectiveRecord& record = seen.record;
  json text = {{"number", record.number},
               {"group", record.group},
               {"kind", record.kind},
               {"what", record.what},
               {"bytes", record.bytes},
               {"state", static_cast<int>(record.state)},
               {"seconds", seen.seconds}};
  if (record.peer.has_value()) {
    text["peer"] = *record.peer;
  }
  return text;
}

SeenCollective read_collective(const json& text) {
  SeenCollective seen;
  seen.record.number = text.at("number");
  seen.record.group = text.at("group");
  seen.record.kind = text.at("kind");
  seen.record.what = text.at("what");
  seen.record.bytes = text.at("bytes");
  if (text.contains("peer")) {
    seen.record.peer = text.at("peer").get<uint32_t>();
  }
  const auto state = text.at("state").get<unsigned>();
  seen.record.state = state <= static_cast<unsigned>(CollectiveRecord::State::kFailed)
                          ? static_cast<CollectiveRecord::State>(state)
                          : CollectiveRecord::State::kFailed;
  seen.seconds = text.at("seconds");
  return seen;
}

}  // namespace

const char* state_name(CollectiveRecord::State state) {
  switch (state) {
    case CollectiveRecord::State::kBegun:
      return "under way";
    case CollectiveRecord::State::kDone:
      return "done";
    case CollectiveRecord::State::kFailed:
      return "failed";
  }
  return "";
}

std::string SeenCollective::text() const {
  std::string text = formatted("{} {}: {}", record.group, record.number, record.kind);
  if (!record.what.empty()) {
    text += " of \"" + record.what + "\"";
  }
  text += formatted(", {} bytes, ", record.bytes);
  return record.state == CollectiveRecord::State::kBegun
             ? text + "under way for " + seconds_text(seconds)
             : text + state_name(record.state) + ", begun " + seconds_text(seconds) + " ago";
}

const SeenCollective* RankStatus::last_collective() const {
  const SeenCollective* last = nullptr;  // collectives are in the order in which they were started
  for (const SeenCollective& seen : collectives) {
    if (last == nullptr || last->is_done()) {
      last = &seen;
    }
  }
  return last;
}

std::vector<SeenCollective> seen_now(const std::vector<CollectiveRecord>& records) {
  const auto now = std::chrono::system_clock::now();
  std::vector<SeenCollective> seen;
  for (const CollectiveRecord& record : records) {
    const double seconds = std::chrono::duration<double>(now - record.began).count();
    seen.push_back({record, std::max(0.0, seconds)});
  }
  return seen;
}

std::vector<SeenCollective> last_of_each_group(const std::vector<CollectiveRecord>& records) {
  std::vector<SeenCollective> last;
  for (SeenCollective& seen : seen_now(records)) {
    std::erase_if(last, [&](const SeenCollective& earlier) {
      return earlier.record.group == seen.record.group;
    });
    last.push_back(std::move(seen));
  }
  return last;
}

std::string to_text(const RankStatus& status) {
  json collectives = json::array();
  for (const SeenCollective& seen : status.collectives) {
    collectives.push_back(collective_json(seen));
  }
  const json text = {{"beat", status.beat},
                     {"machine", status.machine},
                     {"pid", status.process.pid},
                     {"started", status.process.started},
                     {"space", status.process.space},
                     {"doing", activity_json(status.activity)},
                     {"collectives", std::move(collectives)},
                     {"is_starting", status.is_starting},
                     {"is_leaving", status.is_leaving}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

RankStatus read_rank_status(const std::string& text) {
  try {
    const json read = json::parse(text);
    RankStatus status;
    status.beat = read.at("beat");
    status.machine = read.at("machine");
    status.process.pid = read.at("pid");
    status.process.started = read.at("started");
    status.process.space = read.at("space");
    status.activity = read_activity(read.at("doing"));
    for (const json& collective : read.at("collectives")) {
      status.collectives.push_back(read_collective(collective));
    }
    status.is_starting = read.at("is_starting");
    status.is_leaving = read.at("is_leaving");
    return status;
  } catch (const json::exception& error) {
    throw Error("distributed.failed",
                std::string("cannot read a rank's status from the store: ") + error.what());
  }
}

}  // namespace tenon
