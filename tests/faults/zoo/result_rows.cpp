// SPDX-License-Identifier: Apache-2.0
//
// Plugins that return a wrong result in step 3, and plugins that misuse handles and statuses.
#include <string>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// The policy for non-finite updates ends the run. Its message names the origin, not a component.
BadRun non_finite(const std::string& kind, const std::string& fault, const std::string& origin) {
  BadRun row = of_step(kind, fault, {"train.non_finite"}, {origin});
  row.exit_codes = {6};
  row.plugin.clear();
  row.component.clear();
  row.rank_of_two.reset();
  return row;
}

// A loss on data pointers whose table ends before `backward`: no parameter has a gradient.
BadRun untrained() {
  return {.name = "loss without backward",
          .folders = {"faults_zoo/misbehaves"},
          .patch = R"({"loss": {"type": "old_loss"}})",
          .exit_codes = {5},
          .plugin = "org.tenon.zoo.misbehaves",
          .component = "loss \"old_loss\"",
          .says = {"gradient"},
          .step = 1};
}

// A sink that fails costs its records, and the run continues.
BadRun lost_records() {
  BadRun row = of_rank_0(in_function(
      "write", of_step("metric_sink", "fail_in_write", {}, {"warning: [plugin.failed]"})));
  row.exit_codes = {0};
  row.step = 0;
  row.rank_of_two.reset();
  row.more = [](const ZooResult& result) {
    CHECK(result.summary.value_or(nlohmann::json::object()).value("lost_records", 0) == 4);
  };
  return row;
}

}  // namespace

std::vector<BadRun> result_rows() {
  const std::string bad = "plugin.bad_result";
  return {
      in_function("count", of_step("loss", "count_of_minus_one", {bad}, {"-1"})),
      in_function("count", of_step("loss", "count_of_i32", {bad})),
      non_finite("loss", "count_of_nan", "loss 'bad_loss'"),
      in_function("compute", of_step("loss", "no_sum", {bad})),
      in_function("compute", of_step("loss", "sum_of_i64", {bad}, {"Long"})),
      in_function("compute", of_step("loss", "sum_of_two", {bad}, {"[2]"})),
      in_function("backward", of_step("loss", "short_gradient", {bad}, {"[1]"})),
      in_function("backward", of_step("loss", "gradients_beyond_inputs", {bad}, {"more than 2"})),
      in_function("backward", of_step("loss", "gradient_stored_twice", {bad}, {"twice"})),
      non_finite("loss", "infinite_gradient", "gradient"),
      untrained(),
      of_step("model", "no_output", {bad}, {"output 'logits' of block 'only'"}),
      of_step("model", "output_of_i64", {bad}, {"output 'logits' of block 'only'", "Long"}),
      non_finite("optimizer", "write_nan", "parameter"),
      in_function("factor", of_step("lr_scheduler", "factor_of_minus_three", {bad}, {"-3"})),
      in_function("factor", of_step("lr_scheduler", "factor_of_nan", {bad}, {"nan"})),
      in_function("factor", of_step("lr_scheduler", "factor_of_infinity", {bad}, {"inf"})),
      of_rank_0(in_function("compute", of_step("metric", "fail_in_compute", {"plugin.failed"}))),
      in_function("update", of_step("metric", "append_garbage", {bad})),
      lost_records(),
      in_function("run", of_step("feature", "garbage_values", {bad})),
  };
}

std::vector<BadRun> handle_rows() {
  const std::string bad = "plugin.bad_result";
  const auto of_compute = [](const std::string& fault, const std::vector<std::string>& ids) {
    return in_function("compute", of_step("loss", fault, ids));
  };
  // The host may find these itself, or the C library does when it frees the memory.
  const std::vector<std::string> any = {"plugin.crashed", "run.crashed", bad};
  return {
      of_compute("released_sum", {bad}),
      of_compute("garbage_sum", {bad}),
      of_compute("input_returned", {bad}),
      crashing(of_compute("sum_released_twice", any)),
      crashing(of_compute("input_released", any)),
      crashing(of_compute("garbage_status", any)),
      crashing(of_compute("released_status", any)),
      crashing(of_compute("status_released_twice", any)),
      in_function("forward", of_step("model", "garbage_output", {bad})),
  };
}

}  // namespace tenon
