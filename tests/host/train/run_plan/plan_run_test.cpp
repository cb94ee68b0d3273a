// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/plan_run.hpp"

#include "host/error/error.hpp"

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// The id of the error that components of this recipe end with; "" for none.
std::string refusal(const std::string& patch, RunRequest request = {}) {
  RunRig rig(patch, std::move(request));
  try {
    rig.plan();
    return "";
  } catch (const Error& error) {
    return error.id();
  }
}

}  // namespace

TEST_CASE("components are created from the recipe and matched with each other", "[train]") {
  RunRig rig(R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}},
                 "metrics": [{"type": "accuracy"}], "lr_scheduler": {"type": "cosine"},
                 "hooks": [{"type": "event_trace"}]})");
  const auto plan = rig.plan();
  CHECK(plan->model.graph.num_elements() == 4 * 8 + 8 + 8 * 3 + 3);
  CHECK(plan->data.sources().size() == 2);
  CHECK(plan->model.losses->size() == 1);
  CHECK(plan->loop.total_steps == 6);
  CHECK(plan->loop.microbatches_per_step == 1);
  CHECK(plan->observers.schedule() != nullptr);
  CHECK_FALSE(plan->files.import.has_value());
  CHECK(plan->data.loader.batch_size == 4);
  CHECK(plan->data.loader.samples_per_step == 4);
  std::string roles;
  for (const ReportedComponent& one : plan->reported()) {
    roles += one.role + " ";
  }
  CHECK(roles == "model data eval loss metric optimizer schedule hook sink ");
  CHECK(plan->observers.hooks.size() == 1);
  CHECK(plan->observers.sinks.size() == 1);
  CHECK(plan->model.partitions.size() == 2);  // biases are not decayed
  CHECK(plan->model.tables.empty());
}

TEST_CASE("what does not fit together is found before anything is allocated", "[train]") {
  CHECK(refusal("{}").empty());
  CHECK(refusal(R"({"eval": {"next_window": true}})") == "recipe.contradiction");
  CHECK(refusal(R"({"data": {"skip_windows": ["a"]}})") == "recipe.contradiction");
  CHECK(refusal(R"({"metrics": [{"type": "accuracy", "name": ")" + std::string(99, 'm') +
                R"("}], "data": {"eval": {"type": "windows", "options": {"samples": 9}}}})") ==
        "recipe.out_of_range");
  CHECK(refusal(R"({"checkpoint": {"exclude": ["nothing*"]}})") == "checkpoint.unmatched_exclude");
  CHECK(refusal(R"({"parallel": {"unsharded": ["nothing*"]}})") == "distributed.unmatched_block");
}

TEST_CASE("rows cannot be imported for a model without tables", "[train]") {
  RunRequest request;
  request.tables.import_from = "rows";
  CHECK(refusal("{}", request) == "table.unknown");
}

TEST_CASE("what checkpoints exclude is planned with the components", "[train]") {
  RunRig rig(R"({"checkpoint": {"exclude": ["*bias*"]}})");
  const auto plan = rig.plan();
  CHECK(plan->files.excluded.parameters.size() == 2);
  CHECK_FALSE(plan->files.export_map.has_value());
}

}  // namespace tenon
