// SPDX-License-Identifier: Apache-2.0
//
// What `--profile` records: which steps, and that events enclose blocks, and blocks operators.
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Span {
  std::string name;
  std::string category;
  int64_t thread = 0;
  double begin = 0;  // microseconds
  double end = 0;

  bool is_in(const Span& other) const {
    // Both ends are rounded to the nanosecond.
    return this != &other && thread == other.thread && begin >= other.begin - 0.002 &&
           end <= other.end + 0.002;
  }
};

std::vector<Span> spans_of(const HostRun& run) {
  std::vector<Span> spans;
  const nlohmann::json trace = nlohmann::json::parse(run.file("profile.json"));
  for (const auto& event : trace.at("traceEvents")) {
    const std::string category = event.value("cat", "");
    if (event.value("ph", "") == "X" && (category == "user_annotation" || category == "cpu_op")) {
      spans.push_back({event["name"],
                       category,
                       event["tid"],
                       event["ts"],
                       event["ts"].get<double>() + event["dur"].get<double>()});
    }
  }
  return spans;
}

// The innermost span around `inner` whose name begins with `prefix`.
const Span* around(const std::vector<Span>& spans, const Span& inner, std::string_view prefix) {
  const Span* found = nullptr;
  for (const Span& span : spans) {
    if (span.category == "user_annotation" && span.name.starts_with(prefix) && inner.is_in(span) &&
        (found == nullptr || span.is_in(*found))) {
      found = &span;
    }
  }
  return found;
}

// How many spans of this name lie within one whose name begins with `inside`, which must lie in
// `event`, which must lie in a step.
int num_nested(const std::vector<Span>& spans,
               std::string_view name,
               std::string_view inside,
               std::string_view event) {
  int count = 0;
  for (const Span& span : spans) {
    if (span.name != name || span.category != "cpu_op") {
      continue;
    }
    const Span* const block = around(spans, span, inside);
    const Span* const outer = block != nullptr ? around(spans, *block, event) : nullptr;
    count += outer != nullptr && around(spans, *outer, "step ") != nullptr ? 1 : 0;
  }
  return count;
}

std::multiset<std::string> steps_in(const std::vector<Span>& spans) {
  std::multiset<std::string> steps;
  for (const Span& span : spans) {
    if (span.name.starts_with("step ")) {
      steps.insert(span.name);
    }
  }
  return steps;
}

}  // namespace

TEST_CASE("a profile has the steps asked for, with events around blocks around operators",
          "[recipes]") {
  const HostRun run(
      small_recipe(R"({"data": {"loader_threads": 1}, "hooks": [{"type": "event_trace"}],
                       "train": {"steps": 9}})"),
      {"--profile", "steps=3..5"});
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK_THAT(run.result().err, contains_text("the profile of steps 3 to 5 is in "));
  const std::vector<Span> spans = spans_of(run);
  CHECK(steps_in(spans) == std::multiset<std::string>{"step 3", "step 4", "step 5"});

  // Each layer of the model multiplies once, forward: few rows, by the host's own kernel.
  const int num_products = num_nested(spans, "tenon::product", "block ", "forward");
  CHECK(num_products > 0);
  CHECK(num_products % 3 == 0);
  int num_all_products = 0;
  for (const Span& span : spans) {
    num_all_products += span.name == "tenon::product" ? 1 : 0;
  }
  CHECK(num_all_products == num_products);
  CHECK(num_nested(spans, "aten::mm", "backward of block ", "backward") > 0);

  // The train thread did nothing outside these steps.
  for (const Span& span : spans) {
    const bool is_step = span.name.starts_with("step ");
    INFO(span.name << " from " << span.begin << " to " << span.end);
    const bool is_of_loader = span.name == "read" || around(spans, span, "read") != nullptr;
    CHECK((is_step || is_of_loader || around(spans, span, "step ") != nullptr));
  }
}

TEST_CASE("a profile is written when a run ends within its steps, and not if it ends before",
          "[recipes]") {
  const HostRun within(small_recipe(R"({"train": {"steps": 4}})"), {"--profile", "steps=3..50"});
  CHECK(within.result().exit_code == 0);
  CHECK(steps_in(spans_of(within)) == std::multiset<std::string>{"step 3", "step 4"});
  const HostRun before(small_recipe(R"({"train": {"steps": 4}})"), {"--profile", "steps=5..6"});
  CHECK(before.result().exit_code == 0);
  CHECK(!std::filesystem::exists(before.run_dir() / "profile.json"));
  CHECK_THAT(before.result().err,
             contains_text("no profile: the run ended at step 4, before steps 5 to 6"));
}

TEST_CASE("a profiled run gives the figures of one that is not", "[recipes]") {
  const std::string recipe = small_recipe(R"({"train": {"steps": 8, "log_every": 1}})");
  const HostRun plain(recipe);
  const HostRun profiled(recipe, {"--profile", "steps=2..4"});
  CHECK(plain.metrics() == profiled.metrics());
}

}  // namespace tenon
