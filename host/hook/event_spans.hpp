// SPDX-License-Identifier: Apache-2.0
//
// Events as a profile shows them: from before_forward to after_forward is one span, "forward", with
// what its hooks did in it. Invariant: an after_ whose before_ was not seen, because the profile
// began between them, ends nothing.
// Threads: the train thread alone.
#pragma once

#include "host/tensor/trace_span.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon {

class EventSpans {
 public:
  // Before the hooks of `event` are called: a before_ begins its span. `step` distinguishes steps.
  void begin(uint32_t event, uint64_t step);
  // After they have been: an after_ ends its span.
  void end(uint32_t event);
  // Ends all that are open: the profile is over, or an error left them.
  void close();

 private:
  struct Open {
    uint32_t ends_at;
    std::unique_ptr<TraceSpan> span;
  };
  std::vector<Open> open_;  // outermost first
};

}  // namespace tenon
