// SPDX-License-Identifier: Apache-2.0
//
// Traces of events that are nearly right are compared or refused. A case is the second of two
// files; the first is valid.
#include "host/tools/inspect/trace_diff.hpp"

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"

namespace tenon {
namespace {

std::string line_of(const std::string& event, int step) {
  const std::string number = std::to_string(step);
  return R"({"event": ")" + event + R"(", "step": )" + number +
         R"(, "epoch": 0, "window": 0, "window_label": "", "microbatch": 0, "is_train": true})";
}

const std::vector<std::string>& seed_lines() {
  static const std::vector<std::string> lines = {
      line_of("before_step", 1), line_of("after_step", 1), line_of("end", 1)};
  return lines;
}

std::string seed_trace() {
  std::string text;
  for (const std::string& line : seed_lines()) {
    text += line + "\n";
  }
  return text;
}

std::string make_trace(Mutator& mutator) {
  static const JsonCases cases(seed_lines());
  if (mutator.one_in(4)) {
    return mutator.mutated(seed_trace(), {"\n", "\"step\": "}, {seed_trace()});
  }
  std::string text;
  for (const std::string& line : seed_lines()) {
    text += (mutator.one_in(3) ? cases.make(mutator) : line) + "\n";
  }
  return text;
}

std::string judge_trace(const std::string& text) {
  static const MemoryFile valid("a.jsonl");
  static const MemoryFile other("b.jsonl");
  valid.write(seed_trace());
  other.write(text);
  return outcome_of([&] {
    const TraceComparison found = compare_traces(valid.path(), other.path());
    check_fuzz_message("a comparison", found.text);
    if (text == seed_trace() && !found.is_equal) {
      throw FuzzFinding("equal traces differ");
    }
    if (!compare_traces(other.path(), other.path()).is_equal && found.is_equal) {
      throw FuzzFinding("a trace equals another one, but not itself");
    }
  });
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc, argv, {.name = "trace_fuzz", .make = tenon::make_trace, .judge = tenon::judge_trace});
}
