// SPDX-License-Identifier: Apache-2.0
//
// The members of the zoo that no check finds, with the reasons.
#include "tests/faults/zoo/zoo_page.hpp"

namespace tenon {

std::vector<UncheckedMember> unchecked_members() {
  const std::string good = "a good plugin";
  const std::string of_pair = "good alone; a folder with both files is refused";
  const std::string own_output = "runs of the checker write to their own sink and folder";
  return {
      {"bad_loss", good + " beside a component that the checks of its kind skip"},
      {"conflicts_b", "the row of `conflicts_a` loads both"},
      {"crashes_in_destructor", "harmless: the program ends without running destructors"},
      {"dies_as_told", good + " unless a variable of the environment is set"},
      {"good_c", good},
      {"good_range", good},
      {"hook log_a_lot", "harmless: the host drops the lines"},
      {"hook pass_nulls", "a test of the host, which answers with statuses"},
      {"keeps_a_thread", "harmless: the program ends in spite of the thread"},
      {"libc10-0a1b2c3d", "a library, which `brings_torch` needs"},
      {"metric_sink crash_in_open", own_output},
      {"metric_sink fail_in_open", own_output},
      {"metric_sink fail_in_write", own_output},
      {"registers_zoo", good},
      {"same_id_1", of_pair},
      {"same_id_2", of_pair},
      {"same_type_1", "good alone; a recipe must name the plugin if both are there"},
      {"same_type_2", "good alone; a recipe must name the plugin if both are there"},
      {"shared_twin", "a run with `shared_twin_1` and `shared_twin_2`"},
      {"storage keep_nothing", own_output},
      {"twin", "a run with `twin_1` and `twin_2`"},
  };
}

}  // namespace tenon
