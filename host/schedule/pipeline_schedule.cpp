// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/pipeline_schedule.hpp"

namespace tenon {

std::vector<uint32_t> PipelineSchedule::ranks_of_stages() const {
  std::vector<uint32_t> ranks(num_stages, kNoRank);
  for (uint32_t rank = 0; rank < rows.size(); ++rank) {
    for (const StageAction& action : rows[rank]) {
      if (action.stage < num_stages && ranks[action.stage] == kNoRank) {
        ranks[action.stage] = rank;
      }
    }
  }
  return ranks;
}

}  // namespace tenon
