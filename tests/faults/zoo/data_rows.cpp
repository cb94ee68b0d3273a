// SPDX-License-Identifier: Apache-2.0
//
// Datasets whose third read breaks the contract. Reads are ahead of the steps: an error ends the
// step that wants the batch, a crash any step before it.
#include <string>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"

namespace tenon {
namespace {

BadRun at_any_step(BadRun row) {
  row.exit_codes = {4, 5};
  row.step = 0;
  return row;
}

}  // namespace

std::vector<BadRun> data_rows() {
  const std::string bad = "data.bad_batch";
  return {
      of_step("dataset", "count_one_more", {bad}, {"5 samples"}),
      of_step("dataset", "count_below_zero", {bad}, {"-1 samples"}),
      of_step("dataset", "count_nothing", {bad}, {"set_counts"}),
      of_step("dataset", "write_x_twice", {bad}, {"field \"x\"", "twice"}),
      of_step("dataset", "write_field_99", {bad}, {"99"}),
      of_step("dataset", "write_no_labels", {bad}, {"field \"labels\""}),
      of_step("dataset", "write_five_columns", {bad}, {"field \"x\"", "[4, 5]"}),
      of_step("stream", "count_one_more", {bad}, {"5 samples", "at most 4"}),
      of_step("stream", "write_nothing", {bad}, {"no sample"}),
      of_step("stream", "no_position", {bad}, {"position"}),
      of_step("stream", "position_of_two_mib", {bad}, {"2097152 bytes"}),
      of_step("stream", "write_huge_batch", {"run.out_of_memory", bad}),
      crashing(at_any_step(in_function(
          "read",
          of_step("dataset", "write_garbage_tensor", {"plugin.crashed", "plugin.failed", bad})))),
      crashing(at_any_step(in_function(
          "read", of_step("dataset", "crash_in_read", {"plugin.crashed"}, {"SIGSEGV"})))),
  };
}

}  // namespace tenon
