// SPDX-License-Identifier: Apache-2.0
//
// --trace-diff A B: finds the first difference between two runs. Compares two files of the hook
// event_trace, event by event.

#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct TraceComparison {
  bool is_equal = false;
  std::uint64_t num_events = 0;  // equal events before the first difference
  // Text to print: "equal: 412 events", or the first difference with its line, step, event, and
  // both values of each field that differs. Ends in a line break.
  std::string text = {};
};

// Compares two traces. Traces of different lengths are different.
//
// Errors   trace.unreadable: a file cannot be read, is empty, or has an invalid line before the
//          first difference
TraceComparison compare_traces(const std::string& file_a, const std::string& file_b);

}  // namespace tenon
