// SPDX-License-Identifier: Apache-2.0
//
// Plugins that end the process, never return, or do harm when it ends; exceptions that leave a
// plugin; and two plugins that share their symbols.
#include <string>
#include <utility>
#include <vector>

#include "tests/faults/zoo/zoo_run.hpp"

namespace tenon {
namespace {

// Crashes of `on_event` in step 3.
BadRun crash_of_event(const std::string& fault,
                      const std::string& signal,
                      const std::string& id = "plugin.crashed") {
  return crashing(
      in_function("on_event", of_step("hook", fault, {id}, {"after_step", signal, "step 3"})));
}

// A run whose last checkpoint cannot be saved has failed.
BadRun without_checkpoint() {
  BadRun row = with_patch(R"({"checkpoint": {"at_end": true, "retries": 0}})",
                          of_all_ranks(of_start("storage", "keep_nothing", {"checkpoint.failed"})));
  row.says = {"the run ended at step ", "but the checkpoint", "no room for a checkpoint"};
  row.exit_codes = {5};
  return row;
}

// The instance is destroyed after the last step, before or after the summary is written.
BadRun at_destroy(BadRun row) {
  row.exit_codes = {5};
  row.summary_of = SummaryOf::kEither;
  return in_function("destroy", std::move(row));
}

BadRun with_limit(const std::string& section, BadRun row) {
  constexpr const char* kSeconds = "2";
  row.limit_s = 2;
  return with_patch("{\"" + section + "\": {\"timeout_seconds\": " + kSeconds + "}}",
                    std::move(row));
}

// A plugin of plugins/ends_badly.c.
BadRun of_process_end(const std::string& name) {
  return {.name = name,
          .folders = {"faults_zoo/" + name},
          .patch = R"({"hooks": [{"type": "quiet"}]})",
          .exit_codes = {0}};
}

BadRun at_shutdown(const std::string& name, const std::string& id) {
  BadRun row = in_function("shutdown", of_process_end(name));
  row.exit_codes = {5};
  row.ids = {id};
  row.plugin = "org.tenon.zoo." + name;
  row.says = {name + ".so"};
  row.summary_of = SummaryOf::kRun;
  return row;
}

BadRun hanging_at_shutdown() {
  BadRun row = at_shutdown("hangs_in_shutdown", "plugin.stuck");
  row.limit_s = 10;
  return row;
}

// A C++ exception from a plugin without the wrapper. With another runtime it cannot always be
// caught, and ends the process.
BadRun thrown(const std::string& name, const std::string& where, int exit_code) {
  BadRun row = in_function(
      where,
      {.name = name + " in " + where,
       .folders = {"faults_zoo/" + name},
       .patch = R"({"loss": {"type": "throws", "options": {"where": ")" + where + R"("}}})",
       .exit_codes = {exit_code},
       .ids = {"plugin.failed"},
       .plugin = "org.tenon.zoo." + name,
       .component = "loss \"throws\"",
       .step = exit_code == 5 ? 1U : 0U});
  if (name == "throws") {
    row.says = {"the zoo threw in " + where};
    return row;
  }
  row.ids.emplace_back("plugin.crashed");
  return crashing(std::move(row));
}

BadRun twins(const std::string& name) {
  return {.name = name,
          .folders = {"faults_zoo/" + name + "_1", "faults_zoo/" + name + "_2"},
          .patch = R"({"hooks": [{"type": "twin_1"}, {"type": "twin_2"}]})"};
}

BadRun separate_twins() {
  BadRun row = twins("twin");
  row.exit_codes = {0};
  row.says = {"org.tenon.zoo.twin_1: twin 1 is itself", "org.tenon.zoo.twin_2: twin 2 is itself"};
  return row;
}

BadRun shared_twins() {
  BadRun row = twins("shared_twin");
  row.exit_codes = {4};
  row.ids = {"plugin.shared_symbol"};
  row.plugin = "org.tenon.zoo.twin_1";
  row.says = {"shared_twin_1.so", "num_described"};
  return row;
}

}  // namespace

std::vector<BadRun> crash_rows() {
  return {
      crash_of_event("read_through_null", "SIGSEGV"),
      crash_of_event("raise_segv", "SIGSEGV"),
      crash_of_event("overflow_stack", "SIGSEGV"),
      crash_of_event("abort_run", "SIGABRT"),
      crash_of_event("free_twice", "SIGABRT"),
      crash_of_event("exit_with_0", "exit()", "plugin.exited"),
      crash_of_event("exit_at_once_with_0", "_exit()", "plugin.exited"),
      without_checkpoint(),
      crashing(at_destroy(of_start("loss", "crash_in_destroy", {"plugin.crashed"}))),
  };
}

std::vector<BadRun> hang_rows() {
  const std::vector<std::string> stuck = {"plugin.stuck"};
  BadRun read = with_limit("data", in_function("read", of_step("dataset", "hang_in_read", stuck)));
  read.exit_codes = {4, 5};  // reads are ahead of the steps
  read.step = 0;
  return {
      with_limit("plugins", in_function("create", of_start("hook", "hang_in_create", stuck))),
      with_limit("plugins", in_function("describe", of_start("hook", "hang_in_describe", stuck))),
      with_limit("plugins",
                 in_function("on_event", of_step("hook", "never_return", stuck, {"after_step"}))),
      with_limit("plugins", at_destroy(of_start("loss", "hang_in_destroy", stuck))),
      std::move(read),
  };
}

std::vector<BadRun> end_rows() {
  return {
    crashing(at_shutdown("crashes_in_shutdown", "plugin.crashed")), hanging_at_shutdown(),
        of_process_end("crashes_in_destructor"), of_process_end("keeps_a_thread"),
        thrown("throws", "create", 4), thrown("throws", "compute", 5),
        thrown("throws_alone", "create", 4), separate_twins(),
#if defined(__GNUC__) && !defined(__clang__)  // clang has no unique symbols
        shared_twins(),
#endif
  };
}

}  // namespace tenon
