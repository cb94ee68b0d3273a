// SPDX-License-Identifier: Apache-2.0
//
// The zoo: runs of the whole program with bad plugins, each on one rank and on two. Each ends with
// the exit status of its phase, in time, names the plugin, component, function, rank and step, and
// leaves summary.json. The tables of rows are in *_rows.cpp.
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the zoo has at least 80 bad plugins, each once", "[faults][zoo]") {
  std::set<std::string> names;
  std::size_t num_rows = 0;
  for (const auto& rows : {load_rows(),
                           process_state_rows(),
                           start_rows(),
                           graph_rows(),
                           result_rows(),
                           handle_rows(),
                           data_rows(),
                           hook_rows(),
                           undeclared_rows(),
                           crash_rows(),
                           hang_rows(),
                           end_rows()}) {
    num_rows += rows.size();
    for (const BadRun& row : rows) {
      names.insert(row.name);
      // A run that fails names something.
      INFO(row.name);
      CHECK_FALSE(row.exit_codes.empty());
      CHECK((!row.ids.empty() || !row.says.empty() || row.step != 0 ||
             row.exit_codes == std::vector<int>{0}));
    }
  }
  CHECK(names.size() == num_rows);
  CHECK(num_rows >= 80);
}

TEST_CASE("a plugin that fails while it is loaded ends the run that needs it",
          "[faults][zoo][ranks][members]") {
  check_zoo(load_rows());
}

TEST_CASE("a plugin that changes the process while it is loaded is named, and the state restored",
          "[faults][zoo][ranks][members]") {
  check_zoo(process_state_rows());
}

TEST_CASE("a component that cannot be created or described ends the run before its first step",
          "[faults][zoo][ranks][members]") {
  check_zoo(start_rows());
}

TEST_CASE("a model that describes an impossible graph ends the run before its first step",
          "[faults][zoo][ranks][members]") {
  check_zoo(graph_rows());
}

TEST_CASE("a component that returns a wrong result is named with the function and the step",
          "[faults][zoo][ranks][members]") {
  check_zoo(result_rows());
}

TEST_CASE("a component that misuses a handle or a status is named",
          "[faults][zoo][ranks][members]") {
  check_zoo(handle_rows());
}

TEST_CASE("a dataset whose batch breaks the contract is named", "[faults][zoo][ranks][members]") {
  check_zoo(data_rows());
}

TEST_CASE("a hook that misuses the services of the run is named", "[faults][zoo][ranks][members]") {
  check_zoo(hook_rows());
}

TEST_CASE("a hook that writes what it does not declare is named with the object",
          "[faults][zoo][ranks][members]") {
  check_zoo(undeclared_rows());
}

TEST_CASE("a plugin that ends the process is named with the function, the rank and the step",
          "[faults][zoo][ranks][members]") {
  check_zoo(crash_rows());
}

TEST_CASE("a plugin that does not return is named after its limit",
          "[faults][zoo][ranks][members]") {
  check_zoo(hang_rows());
}

TEST_CASE("exceptions, shutdowns, threads and shared symbols of plugins",
          "[faults][zoo][ranks][members]") {
  check_zoo(end_rows());
}

}  // namespace tenon
