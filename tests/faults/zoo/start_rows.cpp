// SPDX-License-Identifier: Apache-2.0
//
// Plugins that fail in `create`, or whose `describe` declares what it must not.
#include <string>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"

namespace tenon {

std::vector<BadRun> start_rows() {
  const std::string bad_result = "plugin.bad_result";
  const std::string bad_struct = "plugin.bad_struct";
  return {
      crashing(in_function("create", of_start("hook", "crash_in_create", {"plugin.crashed"}))),
      crashing(in_function("create", of_start("hook", "exit_in_create", {"plugin.exited"}))),
      of_start("loss", "ports_of_no_size", {bad_struct}, {"tenon_port", "struct_size 0"}),
      of_start("loss", "ports_of_huge_size", {bad_struct}, {"struct_size 1099511627776"}),
      of_start("loss", "ports_of_odd_size", {bad_struct}, {"tenon_port", "struct_size"}),
      in_function("describe", of_start("loss", "write_past_info", {bad_struct})),
      in_function("describe", of_start("lr_scheduler", "write_past_info", {bad_struct})),
      of_start("loss", "unknown_flags", {bad_result}, {"flags"}),
      of_start("dataset", "unknown_field_flags", {bad_result}, {"field \"x\"", "flags"}),
      of_start("dataset", "field_twice", {bad_result}, {"field \"x\"", "twice"}),
      in_function("size", of_start("dataset", "size_below_zero", {bad_result}, {"-7"})),
      in_function("describe",
                  of_start("stream", "four_billion_shards", {bad_result}, {"4294967295"})),
      in_function("describe", of_start("hook", "ask_for_unknown_event", {bad_result}, {"event"})),
      in_function("describe", of_start("hook", "ask_for_unknown_phase", {bad_result}, {"phase 9"})),
      of_start("optimizer", "slot_twice", {bad_result}, {"slot \"m\"", "twice"}),
      of_start("metric", "state_with_spaces", {bad_result}, {"Two Words"}),
      of_start("metric", "metric_without_name", {bad_result}, {"no name"}),
      of_rank_0(in_function("open", of_start("metric_sink", "fail_in_open", {"plugin.failed"}))),
      of_rank_0(crashing(
          in_function("open", of_start("metric_sink", "crash_in_open", {"plugin.crashed"})))),
      in_function("infer", of_start("feature", "a_thousand_outputs", {bad_result}, {"1000"})),
      of_all_ranks(of_start("tokenizer", "no_vocabulary", {bad_result}, {"vocab_size 0"})),
  };
}

std::vector<BadRun> graph_rows() {
  const std::string bad_struct = "plugin.bad_struct";
  const std::string bad_graph = "model.bad_graph";
  return {
      of_start("model", "value_of_no_size", {bad_struct}, {"tenon_value_spec", "struct_size 0"}),
      of_start("model", "parameter_of_huge_size", {bad_struct}, {"tenon_parameter_spec"}),
      of_start("model", "block_of_odd_size", {bad_struct}, {"tenon_block_spec"}),
      of_start("model", "index_out_of_range", {bad_graph}, {"block 'only'", "77"}),
      of_start("model", "cycle", {bad_graph}, {"block 'only'", "'logits'"}),
      of_start("model", "negative_size", {bad_graph}, {"'weight'", "negative size"}),
      of_start("model", "unknown_block_flags", {bad_graph}, {"block 'only'", "flags"}),
      of_start("model", "name_that_is_no_text", {bad_graph}, {"parameter", "\\xff"}),
      of_start("model", "name_with_slash", {bad_graph}, {"parameter", "'/'"}),
      of_start("model", "name_of_10000_bytes", {bad_graph}, {"parameter", "10000 bytes"}),
      of_start("model", "name_of_null", {bad_graph}, {"parameter", "no name"}),
      of_start("model", "name_of_two", {bad_graph}, {"'x'"}),
  };
}

}  // namespace tenon
