// SPDX-License-Identifier: Apache-2.0
//
// --trace-diff A B: finds the first difference between two runs. It compares two files of the hook
// event_trace, event by event, and stops at the first difference.

#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct TraceComparison {
  bool is_equal = false;
  std::uint64_t num_events = 0;  // equal events
  // Text to print: "equal: 412 events", or the first difference with its line, step, event, and
  // both values of each field that differs. Ends in a line break.
  std::string text = {};
};

// Traces of different length are different.
//
// Errors   trace.unreadable: a file cannot be read, is empty, or has an invalid line before the
//          first difference
TraceComparison compare_traces(const std::string& file_a, const std::string& file_b);

}  // namespace tenon
