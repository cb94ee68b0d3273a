// SPDX-License-Identifier: Apache-2.0
//
// Shows pairs of events as spans in a profile: the span "forward" lasts from before_forward to
// after_forward, and includes the work of their hooks. Each event before_X with an event after_X is
// such a pair.
// Invariant: if a profile begins between a before_ event and its after_ event, after_ ends no span.
// Threads: the train thread alone.
#pragma once

#include "host/tensor/trace_span.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon {

class EventSpans {
 public:
  // Called before the hooks of `event`: a before_ event begins its span. `step` is shown in the
  // span of a step.
  void begin(uint32_t event, uint64_t step);
  // Called after the hooks of `event`: an after_ event ends its span.
  void end(uint32_t event);
  // Ends all open spans, because the profile ends or an error left them open.
  void close();

 private:
  struct Open {
    uint32_t ends_at;
    std::unique_ptr<TraceSpan> span;
  };
  std::vector<Open> open_;  // outermost first
};

}  // namespace tenon
