// SPDX-License-Identifier: Apache-2.0
//
// --trace-diff A B: where two runs first did something else. It compares two files of the hook
// event_trace, event by event, and reads no further than the first difference.

#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct TraceComparison {
  bool is_equal = false;
  std::uint64_t num_events = 0;  // that are equal
  // What to print: "equal: 412 events", or the first difference with its line, step, event, and
  // each field that differs there with both values. Ends in a line break.
  std::string text = {};
};

// A trace that ends where the other goes on differs from it.
//
// Errors   trace.unreadable: a file cannot be read, is empty, or has a line that is no event, up to
//          the first difference
TraceComparison compare_traces(const std::string& file_a, const std::string& file_b);

}  // namespace tenon
