// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/lr_scheduler_proxy.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"

namespace {

tenon::LrSchedulerProxy make_schedule(const std::string& type, const std::string& options = "{}") {
  return tenon::LrSchedulerProxy(tenon::make_component("lr_scheduler", type, options));
}

// The schedules of a chain, made as the host makes them.
class NestedSchedules {
 public:
  explicit NestedSchedules(const nlohmann::json& options) {
    const auto schedules = options.value("schedules", nlohmann::json::array());
    made_.reserve(schedules.size());
    for (size_t i = 0; i < schedules.size(); ++i) {
      const auto& schedule = schedules[i]["schedule"];
      made_.push_back(
          tenon::make_component("lr_scheduler",
                                schedule["type"],
                                schedule.value("options", nlohmann::json::object()).dump()));
      by_option_["/schedules/" + std::to_string(i) + "/schedule"] = &made_.back();
    }
  }
  const std::map<std::string, const tenon::ComponentInstance*>& by_option() const {
    return by_option_;
  }

 private:
  std::vector<tenon::ComponentInstance> made_;
  std::map<std::string, const tenon::ComponentInstance*> by_option_;
};

std::string refusal_of_chain(const std::string& options) {
  const auto parsed = nlohmann::json::parse(options);
  return tenon::error_of([&] {
    const NestedSchedules nested(parsed);
    tenon::make_component("lr_scheduler", "chain", options, nested.by_option());
  });
}

Approx about(double value) {
  return Approx(value).epsilon(1e-14).margin(1e-15);
}

}  // namespace

TEST_CASE("a warmup of w steps begins at 1/w and reaches 1 in step w - 1", "[plugins]") {
  for (const std::string type : {"constant", "linear", "cosine"}) {
    CAPTURE(type);
    const auto schedule = make_schedule(type, R"({"warmup_steps": 4})");
    CHECK(schedule.factor(0, 20) == about(0.25));
    CHECK(schedule.factor(1, 20) == about(0.5));
    CHECK(schedule.factor(3, 20) == about(1.0));
    CHECK(schedule.factor(4, 20) == about(1.0));
  }
}

TEST_CASE("the Hugging Face form of a warmup begins at 0 and reaches 1 in step w", "[plugins]") {
  for (const std::string type : {"constant", "linear", "cosine"}) {
    CAPTURE(type);
    const auto schedule =
        make_schedule(type, R"({"warmup_steps": 4, "warmup_form": "huggingface"})");
    CHECK(schedule.factor(0, 20) == about(0.0));
    CHECK(schedule.factor(3, 20) == about(0.75));
    CHECK(schedule.factor(4, 20) == about(1.0));
  }
}

TEST_CASE("the constant schedule stays at 1 and needs no length", "[plugins]") {
  const auto schedule = make_schedule("constant");
  CHECK_FALSE(schedule.needs_total());
  CHECK(schedule.factor(0, 0) == 1.0);
  CHECK(schedule.factor(1000000, 0) == 1.0);
}

TEST_CASE("the linear schedule falls on a line to its floor and stays there", "[plugins]") {
  const auto schedule = make_schedule("linear", R"({"warmup_steps": 10, "min_ratio": 0.2})");
  CHECK(schedule.needs_total());
  CHECK(schedule.factor(10, 110) == about(1.0));
  CHECK(schedule.factor(60, 110) == about(0.6));
  CHECK(schedule.factor(109, 110) == about(0.2 + 0.8 * 0.01));
  CHECK(schedule.factor(110, 110) == about(0.2));
  CHECK(schedule.factor(5000, 110) == about(0.2));
}

TEST_CASE("the cosine schedule falls along half a cosine and stays at its floor", "[plugins]") {
  const auto schedule = make_schedule("cosine", R"({"warmup_steps": 20, "min_ratio": 0.1})");
  CHECK(schedule.needs_total());
  CHECK(schedule.factor(20, 300) == about(1.0));
  CHECK(schedule.factor(90, 300) == about(0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) / 4))));
  CHECK(schedule.factor(160, 300) == about(0.55));
  CHECK(schedule.factor(300, 300) == about(0.1));
  CHECK(schedule.factor(301, 300) == about(0.1));
}

TEST_CASE("a schedule with a length of its own does not ask for the run's", "[plugins]") {
  for (const std::string type : {"linear", "cosine"}) {
    CAPTURE(type);
    const auto schedule = make_schedule(type, R"({"total_steps": 100})");
    CHECK_FALSE(schedule.needs_total());
    CHECK(schedule.factor(50, 0) == about(0.5));
    CHECK(schedule.factor(50, 7) == about(0.5));
  }
}

TEST_CASE("a schedule without any length says what to give", "[plugins]") {
  const auto schedule = make_schedule("cosine", R"({"warmup_steps": 2})");
  CHECK(schedule.factor(1, 0) == about(1.0));
  CHECK_THAT(tenon::error_of([&] { schedule.factor(2, 0); }), tenon::contains_text("total_steps"));
}

TEST_CASE("a run that is shorter than its warmup just rises", "[plugins]") {
  const auto schedule = make_schedule("cosine", R"({"warmup_steps": 20, "min_ratio": 0.1})");
  CHECK(schedule.factor(9, 10) == about(0.5));
  CHECK(schedule.factor(25, 10) == about(0.1));
}

TEST_CASE("options of schedules have limits", "[plugins]") {
  CHECK(tenon::options_problem("lr_scheduler", "cosine", R"({"warmup_steps": 0})").empty());
  CHECK_FALSE(tenon::options_problem("lr_scheduler", "cosine", R"({"warmup_steps": -1})").empty());
  CHECK_FALSE(tenon::options_problem("lr_scheduler", "cosine", R"({"min_ratio": 1.5})").empty());
  CHECK_FALSE(tenon::options_problem("lr_scheduler", "linear", R"({"total_steps": 0})").empty());
  CHECK_FALSE(
      tenon::options_problem("lr_scheduler", "constant", R"({"warmup_form": "other"})").empty());
}

// The values that follow are those of transformers 5.5.4 (get_wsd_schedule,
// get_inverse_sqrt_schedule) and torch 2.11.0 (OneCycleLR, MultiStepLR, StepLR);
// tests/parity/schedule_golden.py prints them.
TEST_CASE("the newer schedules follow transformers' and PyTorch's, step for step", "[plugins]") {
  std::ifstream in(tenon::source_dir() / "tests" / "parity" / "schedule_golden.json");
  const auto cases = nlohmann::json::parse(in);
  CHECK(cases.size() == 19);
  for (const auto& c : cases) {
    CAPTURE(c["name"].get<std::string>());
    const NestedSchedules nested(c["options"]);
    const tenon::LrSchedulerProxy schedule(
        tenon::make_component("lr_scheduler", c["type"], c["options"].dump(), nested.by_option()));
    const auto want = c["values"].get<std::vector<double>>();
    for (size_t s = 0; s < want.size(); ++s) {
      CAPTURE(s);
      CHECK(std::abs(schedule.factor(s, 100) - want[s]) <= 1e-10);
    }
  }
}

TEST_CASE("wsd refuses phases that do not fit into the run", "[plugins]") {
  const auto schedule = make_schedule("wsd", R"({"warmup_steps": 60, "decay_steps": 50})");
  CHECK(schedule.needs_total());
  CHECK_THAT(tenon::error_of([&] { schedule.factor(0, 100); }),
             tenon::contains_text("exceed the 100 steps"));
  CHECK(make_schedule("wsd").factor(90, 100) == 1.0);
  CHECK(make_schedule("wsd").factor(100, 100) == 0.0);
}

TEST_CASE("step wants milestones or a distance, in order and after the warmup", "[plugins]") {
  const auto refusal = [](const std::string& options) {
    return tenon::error_of([&] { make_schedule("step", options); });
  };
  CHECK_THAT(refusal("{}"), tenon::contains_text("exactly one of `milestones` and `every`"));
  CHECK_THAT(refusal(R"({"milestones": [3], "every": 2})"), tenon::contains_text("exactly one of"));
  CHECK_THAT(refusal(R"({"milestones": [3, 3]})"),
             tenon::contains_text("must be strictly increasing"));
  CHECK_THAT(refusal(R"({"milestones": [3], "warmup_steps": 4})"),
             tenon::contains_text("before the end of the warmup"));
}

TEST_CASE("a chain needs the lengths of all schedules but the last", "[plugins]") {
  CHECK_THAT(refusal_of_chain(R"({"schedules": [{"schedule": {"type": "constant"}},
                                                {"schedule": {"type": "cosine"}}]})"),
             tenon::contains_text("/schedules/0/steps is null, but only the last of 2 schedules"));
}

TEST_CASE("restarts have a first length or a number of cycles", "[plugins]") {
  const auto refusal = [](const std::string& options) {
    return tenon::error_of([&] { make_schedule("cosine_restarts", options); });
  };
  CHECK_THAT(refusal(R"({"first_steps": 5, "cycles": 2})"),
             tenon::contains_text("`cycles` is 2, but `first_steps` sets the lengths"));
  CHECK_THAT(refusal(R"({"cycles": 2, "multiplier": 2})"),
             tenon::contains_text("`multiplier` is 2, which needs `first_steps`"));
  CHECK_THAT(refusal(R"({"first_steps": 2, "total_steps": 9})"),
             tenon::contains_text("`total_steps` has no effect with `first_steps`"));
  CHECK(make_schedule("cosine_restarts", R"({"cycles": 2})").needs_total());
  CHECK_FALSE(make_schedule("cosine_restarts", R"({"first_steps": 2})").needs_total());
}
