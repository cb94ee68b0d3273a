// SPDX-License-Identifier: Apache-2.0
//
// RankActivity as JSON, for statuses and failures in the store, and for the records of a run.
#pragma once

#include "host/distributed/failures/rank_activity.hpp"

#include <nlohmann/json_fwd.hpp>

namespace tenon {

nlohmann::ordered_json activity_json(const RankActivity& activity);
// Errors  nlohmann::json::exception if `activity` is invalid
RankActivity read_activity(const nlohmann::json& activity);

}  // namespace tenon
