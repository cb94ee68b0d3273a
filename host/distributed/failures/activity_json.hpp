// SPDX-License-Identifier: Apache-2.0
//
// What a rank is doing, as JSON: of statuses and failures in the store, and of the records of a
// run.
#pragma once

#include "host/distributed/failures/rank_activity.hpp"

#include <nlohmann/json_fwd.hpp>

namespace tenon {

nlohmann::ordered_json activity_json(const RankActivity& activity);
// Errors  nlohmann::json::exception if it is none
RankActivity read_activity(const nlohmann::json& activity);

}  // namespace tenon
