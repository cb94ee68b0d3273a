// SPDX-License-Identifier: Apache-2.0
//
// Plugins that fail while they are loaded, or change the state of the process. The launcher loads
// plugins before it starts ranks, so no rank is named.
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"

namespace tenon {
namespace {

std::string use_of_loss(const std::string& type) {
  return R"({"loss": {"type": ")" + type + R"("}})";
}

constexpr const char* kUseOfQuiet = R"({"hooks": [{"type": "quiet"}]})";

// A plugin of tests/support/zoo whose loss the recipe needs.
BadRun not_loaded(const std::string& name,
                  const std::vector<std::string>& ids,
                  const std::string& loss = "zoo") {
  return {.name = name,
          .copies = {name},
          .patch = use_of_loss(loss),
          .exit_codes = {4},
          .ids = ids,
          .plugin = "org.tenon.zoo." + name,
          .says = {name + ".so"}};
}

// A plugin of this folder whose hook the recipe needs.
BadRun quiet_row(const std::string& name, int exit_code, const std::string& says) {
  return {.name = name,
          .folders = {"faults_zoo/" + name},
          .patch = kUseOfQuiet,
          .exit_codes = {exit_code},
          .plugin = "org.tenon.zoo." + name,
          .says = {name + ".so", says}};
}

BadRun quiet_not_loaded(const std::string& name,
                        const std::string& id,
                        const std::string& says = "") {
  BadRun row = quiet_row(name, 4, says);
  row.ids = {id};
  return row;
}

BadRun with_vet_limit(BadRun row) {
  row.limit_s = 3;
  row.environment = {{"TENON_VET_TIMEOUT_S", "3"}};
  return row;
}

}  // namespace

std::vector<BadRun> load_rows() {
  return {
      not_loaded("crashes_in_entry", {"plugin.crashed"}),
      not_loaded("overflows_stack", {"plugin.crashed"}),
      not_loaded("exits_in_constructor", {"plugin.crashed"}),
      not_loaded("throws_in_static", {"plugin.crashed"}),
      not_loaded("throws_in_entry", {"plugin.entry_failed", "plugin.crashed"}),
      with_vet_limit(not_loaded("hangs_in_entry", {"plugin.hung"})),
      not_loaded("refuses", {"plugin.entry_failed"}),
      not_loaded("speaks_other_abi", {"plugin.abi_mismatch"}),
      not_loaded("registers_less", {"plugin.components_differ"}, "a"),
      not_loaded("registers_more", {"plugin.components_differ"}, "a"),
      not_loaded("no_destroy", {"plugin.missing_interface"}),
      not_loaded("rubbish_table", {"plugin.missing_interface", "plugin.bad_struct"}),
      not_loaded("odd_table", {"plugin.missing_interface", "plugin.bad_struct"}),
      not_loaded("schema_no_json", {"plugin.bad_schema"}),
      not_loaded("undefined_symbol", {"plugin.load_failed"}),
      not_loaded("brings_torch", {"plugin.torch_mismatch"}),
      quiet_not_loaded("crashes_in_constructor", "plugin.crashed", "SIGSEGV"),
      with_vet_limit(quiet_not_loaded("hangs_in_constructor", "plugin.hung")),
      quiet_not_loaded("exits_in_entry", "plugin.crashed", "status 0"),
      quiet_not_loaded("garbage_from_entry", "plugin.crashed", "SIGSEGV"),
      quiet_not_loaded("component_of_no_size", "plugin.bad_struct", "struct_size 0"),
      quiet_not_loaded("component_of_huge_size", "plugin.bad_struct", "struct_size 1099511627776"),
      quiet_not_loaded("component_of_odd_size", "plugin.bad_struct", "struct_size"),
  };
}

std::vector<BadRun> process_state_rows() {
  return {
      quiet_row("rounds_to_zero", 0, "changed the rounding mode"),
      quiet_row("flushes_to_zero", 0, "changed the handling of denormal numbers"),
      quiet_row("ignores_sigterm", 0, "changed the handler of SIGTERM"),
      quiet_row("sets_umask", 0, "changed the umask"),
      quiet_row("sets_locale", 0, "changed the locale"),
      quiet_row("sets_folder", 0, "changed the working directory"),
  };
}

}  // namespace tenon
