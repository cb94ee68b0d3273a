// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/activity_json.hpp"

#include <nlohmann/json.hpp>

namespace tenon {

nlohmann::ordered_json activity_json(const RankActivity& activity) {
  return {{"step", activity.step},
          {"event", activity.event},
          {"call", activity.call},
          {"call_seconds", activity.call_seconds}};
}

RankActivity read_activity(const nlohmann::json& activity) {
  return {.step = activity.at("step"),
          .event = activity.at("event"),
          .call = activity.at("call"),
          .call_seconds = activity.at("call_seconds")};
}

}  // namespace tenon
