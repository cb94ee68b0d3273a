// SPDX-License-Identifier: Apache-2.0
#include "host/hook/event_spans.hpp"

#include <tenon/cpp/event_names.hpp>
#include <tenon/hook.h>

#include <array>
#include <string>
#include <string_view>

namespace tenon {
namespace {

constexpr std::string_view kBefore = "before_";
constexpr std::string_view kAfter = "after_";

// The event after_X for the event before_X; TENON_NUM_EVENTS for other events.
constexpr uint32_t end_of(uint32_t event) {
  const std::string_view name = find_event_name(event);
  for (uint32_t other = 0; name.starts_with(kBefore) && other < TENON_NUM_EVENTS; ++other) {
    const std::string_view end = find_event_name(other);
    if (end.starts_with(kAfter) && end.substr(kAfter.size()) == name.substr(kBefore.size())) {
      return other;
    }
  }
  return TENON_NUM_EVENTS;
}

constexpr auto kEnds = [] {
  std::array<uint32_t, TENON_NUM_EVENTS> ends{};
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    ends[event] = end_of(event);
  }
  return ends;
}();

}  // namespace

void EventSpans::begin(uint32_t event, uint64_t step) {
  if (kEnds[event] != TENON_NUM_EVENTS) {
    const std::string number = event == TENON_EVENT_BEFORE_STEP ? std::to_string(step) : "";
    const char* const name = find_event_name(event) + kBefore.size();
    open_.push_back({kEnds[event], std::make_unique<TraceSpan>(name, number)});
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
