// SPDX-License-Identifier: Apache-2.0
//
// Hooks that misuse the services of the run, or write what they do not declare.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// 64 MiB that it leaks in each of steps 3 to 6, on all ranks: the summary is that of rank 0.
BadRun leak() {
  BadRun row = of_all_ranks(finishes("hook", "leak_tensors"));
  row.more = [](const ZooResult& result) {
    const nlohmann::json live =
        result.summary.value_or(nlohmann::json::object()).value("live_handles", nlohmann::json());
    CHECK(live.is_object());
    CHECK((live.is_object() && live.value("org.tenon.zoo.misbehaves", 0) >= 4));
  };
  return row;
}

// 240,000 lines with escape sequences.
BadRun many_lines() {
  BadRun row = finishes("hook", "log_a_lot");
  row.more = [](const ZooResult& result) {
    const std::string text = result.process.err + result.process.out + result.logs;
    CHECK(text.size() < (2U << 20));
    CHECK(std::ranges::count(text, '\x1b') == 0);
    CHECK_THAT(text, contains_text("org.tenon.zoo.misbehaves: "));
    CHECK_THAT(text, contains_text("the zoo"));
  };
  return row;
}

// A message of 64 MiB, which is cut.
BadRun long_message() {
  BadRun row = of_step("hook", "long_status", {"plugin.failed"}, {"after_step", "more bytes"});
  row.more = [](const ZooResult& result) {
    CHECK(result.process.err.size() < (64U << 10));
    CHECK(result.process.out.size() < (64U << 10));
    CHECK(result.logs.size() < (256U << 10));
    CHECK(result.summary.value_or(nlohmann::json()).dump().size() < (64U << 10));
  };
  return row;
}

}  // namespace

std::vector<BadRun> hook_rows() {
  return {
      of_step("hook", "factor_of_minus_three", {"hook.bad_call"}, {"set_lr_factor", "-3"}),
      of_step("hook", "factor_of_nan", {"hook.bad_call"}, {"set_lr_factor", "nan"}),
      of_step("hook", "add_metric_loss", {"metrics.bad_name"}, {"'loss'"}),
      of_step("hook", "parameter_into_short_view", {"plugin.bad_struct"}, {"struct_size 8"}),
      long_message(),
      many_lines(),
      leak(),
      finishes("hook", "pass_nulls"),
  };
}

std::vector<BadRun> undeclared_rows() {
  const std::string undeclared = "hook.undeclared_write";
  const std::string bad_call = "hook.bad_call";
  return {
      of_step("hook", "declare_no_factor", {undeclared}, {"after_step", "set_lr_factor"}),
      of_step("hook", "declare_no_field", {undeclared}, {"after_data", "set_field"}),
      of_step("hook", "declare_no_loss", {undeclared}, {"before_loss", "scale_loss"}),
      of_step("hook", "declare_no_collective", {undeclared, bad_call}, {"all_reduce"}),
      of_step("hook", "declare_no_read", {undeclared, bad_call}, {"get_step_loss"}),
      of_step("hook", "clear_field", {undeclared}, {"after_data", "\"x\""}),
      of_step("hook", "clear_parameter", {undeclared}, {"after_step", "TENON_TOUCH_PARAMETERS"}),
      of_step("hook",
              "clear_gradient",
              {undeclared},
              {"before_optimizer_step", "TENON_TOUCH_GRADIENTS"}),
  };
}

}  // namespace tenon
