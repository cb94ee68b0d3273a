// SPDX-License-Identifier: Apache-2.0
//
// NaN and infinity, planted in each place where they can arise, under each policy: what is said of
// them, what becomes of the update, and how the run ends.
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct PlantedValue {
  std::string name;
  std::string patch;   // plants it in step 12
  std::string origin;  // what is said of it
};

std::string plant(const std::string& rest) {
  return R"({"hooks": [{"type": "event_trace"}, {"type": "plant_at", "options": {"first_step": 12, )" +
         rest + "}}]}";
}

const std::vector<PlantedValue>& planted_values() {
  static const std::vector<PlantedValue> all = {
      {"data",
       plant(R"("event": "after_data", "into": "batch", "name": "x")"),
       "field 'x' of the batch holds 16 non-finite values; block 'first' reads it"},
      {"parameter",
       plant(R"("event": "before_step", "into": "parameters", "name": "second.weight")"),
       "parameter 'second.weight' of block 'second' holds 24 non-finite values"},
      {"gradient",
       plant(R"("event": "after_backward", "into": "gradients", "name": "first.weight")"),
       "the gradient of parameter 'first.weight' of block 'first' holds 32 non-finite "
       "values, while the forward is finite"},
      {"finished gradient",
       plant(R"("event": "before_optimizer_step", "into": "gradients", "name": "second.weight")"),
       "the gradient of parameter 'second.weight' of block 'second' holds 24 non-finite values"},
      {"output of a block",
       R"({"model": {"options": {"first_step": 12, "last_step": 12, "part": "output"}}})",
       "output 'h' of block 'first' holds 32 non-finite values, while its parameters and "
       "what it reads are finite"},
      {"backward of a block",
       R"({"model": {"options": {"first_step": 12, "last_step": 12, "part": "gradient"}}})",
       "the gradient of parameter 'first.weight' of block 'first' holds 32 non-finite values"},
      {"value of a loss",
       R"({"loss": {"type": "wrong_loss", "options": {"first_step": 12, "last_step": 12, "part": "value"}}})",
       "the value of loss 'wrong_loss' is non-finite, while its inputs are finite"},
      {"count of a loss",
       R"({"loss": {"type": "wrong_loss", "options": {"first_step": 12, "last_step": 12, "part": "count"}}})",
       "the count of loss 'wrong_loss' is non-finite, while its inputs are finite"},
  };
  return all;
}

json recipe(const std::string& patch, const std::string& policy) {
  json result = json::parse(small_recipe(R"({
    "model": {"type": "wrong_net", "options": {"in_features": null, "hidden": null, "out_features": null}},
    "data": {"shuffle": false},
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "hooks": [{"type": "event_trace"}],
    "train": {"steps": 15, "clip_grad_norm": 1.0}})"));
  result.merge_patch(json::parse(patch));
  result["train"]["non_finite"]["policy"] = policy;
  return result;
}

// The names of events from the beginning of one step to the next, in order.
std::vector<std::string> events_of(const HostRun& run, uint64_t step) {
  std::vector<std::string> names;
  std::istringstream lines(run.file("events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event["step"] == step && names.empty() && event["event"] != "before_step") {
      continue;
    }
    if (event["step"] == step) {
      names.push_back(event["event"]);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("`skip` leaves out the one update that is not finite, and says where it arose",
          "[recipes][.release]") {
  for (const PlantedValue& planted : planted_values()) {
    if (planted.name == "parameter") {
      continue;  // stays, so that every step after it fails too
    }
    const HostRun run(recipe(planted.patch, "skip").dump());
    INFO(planted.name << "\n" << run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    CHECK_THAT(
        run.result().err,
        contains_text("step 12: the update is non-finite and is skipped (1 consecutive, 1 in "
                      "total): " +
                      planted.origin));
    const json summary = run.summary();
    CHECK(summary["steps"] == 15);
    CHECK(summary["updates"] == 14);
    CHECK(summary["non_finite"]["steps"] == 1);
    CHECK(summary["non_finite"]["last_step"] == 12);
    CHECK_THAT(summary["non_finite"]["last_origin"].get<std::string>(),
               contains_text(planted.origin));
    // All that was logged is finite, but for the skipped step, which has no loss and no norm.
    for (const json& record : run.metrics()) {
      INFO(record.dump());
      CHECK(record.contains("loss") == (record["step"] != 12));
      CHECK(record.contains("grad_norm") == (record["step"] != 12));
      CHECK(record.contains("non_finite_steps") == (record["step"] >= 12));
      for (const auto& [name, value] : record.items()) {
        CHECK(!value.is_null());
      }
    }
    CHECK_THAT(run.result().out, contains_text("1 non-finite"));
    auto events = events_of(run, 12);  // and what follows before the next step: an epoch ends here
    REQUIRE(events.size() > 12);
    events.resize(12);
    CHECK(events == std::vector<std::string>{"before_step",
                                             "after_data",
                                             "before_forward",
                                             "after_forward",
                                             "before_loss",
                                             "after_loss",
                                             "before_backward",
                                             "after_backward",
                                             "before_optimizer_step",
                                             "after_optimizer_step",
                                             "after_step",
                                             "update_skipped"});
  }
}

// All later updates depend on parameters and optimizer state, and on the schedule.
TEST_CASE("a skipped step is as if a hook had requested to skip it", "[recipes]") {
  for (const char* accumulation : {"1", "2"}) {
    const std::string train =
        std::string(R"({"train": {"gradient_accumulation": )") + accumulation + "}}";
    json with_gradient = recipe(planted_values()[2].patch, "skip");
    with_gradient.merge_patch(json::parse(train));
    const HostRun planted(with_gradient.dump());
    json plain = recipe(R"({"hooks": [{"type": "request_at", "options": {"requests":
      [{"event": "before_step", "step": 12, "request": "skip_update"}]}}]})",
                        "skip");
    plain.merge_patch(json::parse(train));
    const HostRun other(plain.dump());
    REQUIRE(planted.result().exit_code == 0);
    REQUIRE(other.result().exit_code == 0);
    const auto a = planted.metrics();
    const auto b = other.metrics();
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i]["lr"] == b[i]["lr"]);
      if (i != 11) {
        INFO("step " << i + 1);
        CHECK(a[i]["loss"] == b[i]["loss"]);
        CHECK(a[i]["grad_norm"] == b[i]["grad_norm"]);
      }
    }
  }
}

// Of two steps that are skipped one reads NaN, the other does not; the running mean that the model
// keeps would tell them apart, since the hash covers it.
TEST_CASE("a step that is not finite leaves the model's buffers as they were", "[recipes]") {
  const auto hash_of = [](const PlantedValue& planted) {
    const HostRun run(recipe(planted.patch, "skip").dump());
    INFO(planted.name << "\n" << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    return run.summary()["parameters_hash"].get<std::string>();
  };
  const std::string spoilt = hash_of(planted_values()[0]);
  CHECK(spoilt.size() == 16);
  CHECK(spoilt == hash_of(planted_values()[2]));
  const HostRun requested(recipe(R"({"hooks": [{"type": "request_at", "options": {"requests":
    [{"event": "before_step", "step": 12, "request": "skip_update"}]}}]})",
                                 "skip")
                              .dump());
  CHECK(spoilt != requested.summary()["parameters_hash"]);  // there the mean has moved on
}

TEST_CASE("a parameter that is not finite ends a run that skips, after max_consecutive",
          "[recipes]") {
  json many = recipe(planted_values()[1].patch, "skip");
  many["train"]["steps"] = 40;
  many["train"]["non_finite"]["max_consecutive"] = 4;
  const HostRun run(many.dump());
  INFO(run.result().out << run.result().err);
  CHECK(run.result().exit_code == 6);
  CHECK_THAT(run.result().err, contains_text("[train.non_finite]"));
  CHECK_THAT(run.result().err, contains_text("step 14"));
  CHECK_THAT(run.result().err, contains_text("4 consecutive updates"));
  CHECK_THAT(run.result().err, contains_text(planted_values()[1].origin));
  const json summary = run.summary();
  CHECK(summary["exit_code"] == 6);
  CHECK(summary["outcome"] == "failed");
  CHECK(summary["error_id"] == "train.non_finite");
  CHECK(summary["steps"] == 15);
  CHECK(summary["updates"] == 11);
  CHECK(summary["non_finite"]["longest_row"] == 4);
  CHECK(run.metrics().back()["step"] == 15);
}

TEST_CASE("`stop` ends with 6 at the first, before the update, wherever it arose", "[recipes]") {
  for (const PlantedValue& planted : planted_values()) {
    const HostRun run(recipe(planted.patch, "stop").dump());
    INFO(planted.name << "\n" << run.result().out << run.result().err);
    CHECK(run.result().exit_code == 6);
    CHECK_THAT(
        run.result().err,
        contains_text("[train.non_finite] step 12: the update is non-finite: " + planted.origin));
    CHECK_THAT(run.last_line(), contains_text("failed: [train.non_finite]"));
    CHECK(run.summary()["steps"] == 12);
    CHECK(run.summary()["updates"] == 11);
    const std::string trace = run.file("events.jsonl");
    CHECK(trace.find("\"update_skipped\"") < trace.find("\"on_error\""));
    CHECK(trace.find("\"on_error\"") < trace.find("\"end\""));
  }
}

TEST_CASE("`ignore` makes the update, says so once, and counts what follows",
          "[recipes][.release]") {
  for (const PlantedValue& planted : planted_values()) {
    const HostRun run(recipe(planted.patch, "ignore").dump());
    INFO(planted.name << "\n" << run.result().out << run.result().err);
    CHECK(run.result().exit_code == 0);
    const std::string text = "step 12: the update is non-finite and is applied anyway: ";
    CHECK_THAT(run.result().err, contains_text(text + planted.origin));
    CHECK_THAT(run.result().err, !contains_text("step 13: the update is non-finite"));
    const json summary = run.summary();
    CHECK(summary["updates"] == 15);
    const bool is_lasting =
        planted.name.find("loss") == std::string::npos || planted.name[0] == 'c';
    CHECK(summary["non_finite"]["steps"] == (is_lasting ? 4 : 1));
    CHECK_THAT(run.file("events.jsonl"), !contains_text("update_skipped"));
  }
}

TEST_CASE("what goes wrong among the first ten steps ends the run at once", "[recipes]") {
  const HostRun run(recipe(R"({"model": {"options": {"first_step": 10, "last_step": 10,
    "part": "output"}}})",
                           "skip")
                        .dump());
  CHECK(run.result().exit_code == 6);
  CHECK_THAT(run.result().err, contains_text("step 10"));
  CHECK_THAT(run.result().err, contains_text("among the first 10"));
  CHECK(run.summary()["updates"] == 9);
}

TEST_CASE("of several microbatches the one that went wrong is named", "[recipes]") {
  json two = recipe(
      R"({"hooks": [{"type": "plant_at", "options": {"first_step": 12, "event": "after_data",
        "into": "batch", "name": "x"}}], "train": {"gradient_accumulation": 2}})",
      "skip");
  const HostRun run(two.dump());
  CHECK(run.result().exit_code == 0);
  CHECK_THAT(run.result().err, contains_text("block 'first' reads it (microbatch 0)"));
}

TEST_CASE("gradients whose squares overflow fp32 are finite", "[recipes]") {
  const HostRun run(
      recipe(
          R"({"hooks": [{"type": "plant_at", "options": {"first_step": 12, "event": "after_backward",
        "into": "gradients", "value": 1e30}}]})",
          "stop")
          .dump());
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  const json record = run.metrics()[11];
  CHECK(record["grad_norm"].get<double>() == Approx(std::sqrt(56.0) * 1e30).epsilon(1e-5));
}

}  // namespace tenon
