// SPDX-License-Identifier: Apache-2.0
#include "host/hook/event_spans.hpp"

#include <tenon/hook.h>

#include <algorithm>
#include <array>
#include <string>

namespace tenon {
namespace {

struct Pair {
  uint32_t before;
  uint32_t after;
  const char* name;
};

constexpr std::array kPairs = {
    Pair{TENON_EVENT_BEFORE_INIT, TENON_EVENT_AFTER_INIT, "init"},
    Pair{TENON_EVENT_BEFORE_EPOCH, TENON_EVENT_AFTER_EPOCH, "epoch"},
    Pair{TENON_EVENT_BEFORE_WINDOW, TENON_EVENT_AFTER_WINDOW, "window"},
    Pair{TENON_EVENT_BEFORE_STEP, TENON_EVENT_AFTER_STEP, "step"},
    Pair{TENON_EVENT_BEFORE_FORWARD, TENON_EVENT_AFTER_FORWARD, "forward"},
    Pair{TENON_EVENT_BEFORE_LOSS, TENON_EVENT_AFTER_LOSS, "loss"},
    Pair{TENON_EVENT_BEFORE_BACKWARD, TENON_EVENT_AFTER_BACKWARD, "backward"},
    Pair{TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_EVENT_AFTER_OPTIMIZER_STEP, "optimizer_step"},
    Pair{TENON_EVENT_BEFORE_EVALUATE, TENON_EVENT_AFTER_EVALUATE, "evaluate"},
    Pair{TENON_EVENT_BEFORE_CHECKPOINT, TENON_EVENT_AFTER_CHECKPOINT, "checkpoint"},
};

}  // namespace

void EventSpans::begin(uint32_t event, uint64_t step) {
  const auto* const pair = std::find_if(
      kPairs.begin(), kPairs.end(), [event](const Pair& p) { return p.before == event; });
  if (pair != kPairs.end()) {
    const std::string number = event == TENON_EVENT_BEFORE_STEP ? std::to_string(step) : "";
    open_.push_back({pair->after, std::make_unique<TraceSpan>(pair->name, number)});
  }
}

void EventSpans::end(uint32_t event) {
  if (!open_.empty() && open_.back().ends_at == event) {
    open_.pop_back();
  }
}

void EventSpans::close() {
  while (!open_.empty()) {
    open_.pop_back();
  }
}

}  // namespace tenon
