// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/rank_activity.hpp"

#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"

namespace tenon {

std::string RankActivity::progress() const {
  if (step == 0) {
    return event.empty() ? "before the first step" : "before the first step, at " + event;
  }
  return formatted("in step {}{}", step, event.empty() ? "" : ", at " + event);
}

std::string RankActivity::text() const {
  return call.empty() ? progress()
                      : progress() + ", in " + call + " for " + seconds_text(call_seconds);
}

}  // namespace tenon
