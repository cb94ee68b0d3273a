// SPDX-License-Identifier: Apache-2.0
//
// --check-plugin finds what is wrong with each plugin of the zoo: the tables name the checks that
// must fail. All others pass or are skipped.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/faults/zoo/zoo_page.hpp"
#include "tests/faults/zoo/zoo_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr int kNumCheckers = 2;

// A plugin and the checks that it must fail.
struct BadPlugin {
  std::string file;                      // below the `tests` of the build folder
  std::set<std::string> fails;           // names of checks
  std::string says = "";                 // a text in what they found
  std::string recipe = "";               // JSON; "" for no recipe
  std::string only = "";                 // a check or a group; "" for all
  std::vector<std::string> beside = {};  // other plugins of the folder
  std::string limit_s = "";              // TENON_VET_TIMEOUT_S
  std::string member = "";               // name in the page of the zoo; "" for that of the file
};

struct CheckRun {
  int exit_code = -1;
  std::string err;
  nlohmann::json report;
};

CheckRun check_plugin(const BadPlugin& plugin) {
  const ScratchFolder folder;
  const fs::path plugins = folder.path() / "plugins";
  fs::create_directory(plugins);
  const fs::path source = build_dir() / "tests" / plugin.file;
  const fs::path copy = plugins / source.filename();
  fs::copy_file(source, copy);
  for (const std::string& other : plugin.beside) {
    const fs::path beside = build_dir() / "tests" / other;
    fs::copy_file(beside, plugins / beside.filename());
  }
  std::vector<std::string> words = {
      host_program().string(), "--check-plugin", copy.string(), "--json", "--seed", "1"};
  if (!plugin.only.empty()) {
    words.insert(words.end(), {"--only", plugin.only});
  }
  if (plugin.recipe.empty()) {
    words.insert(words.end(), {"--plugin-dir", plugins.string()});
  } else {
    words.insert(words.end(),
                 {"--recipe",
                  folder.write("recipe.json", plugin.recipe).string(),
                  "--plugin-dir",
                  plugin_dir().string(),
                  "--plugin-dir",
                  test_plugin_dir().string()});
  }
  SubprocessOptions options;
  if (!plugin.limit_s.empty()) {
    options.environment["TENON_VET_TIMEOUT_S"] = plugin.limit_s;
  }
  const SubprocessResult process = run_subprocess(words, options);
  return {process.exit_code,
          process.err,
          nlohmann::json::parse(process.out, nullptr, /*allow_exceptions=*/false)};
}

// Runs two programs at a time. Returns the results in the order of the plugins.
std::vector<CheckRun> check_all(const std::vector<BadPlugin>& plugins) {
  std::vector<CheckRun> results(plugins.size());
  std::atomic<std::size_t> next = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < kNumCheckers; ++i) {
      workers.emplace_back([&] {
        for (std::size_t job = next++; job < plugins.size(); job = next++) {
          try {
            results[job] = check_plugin(plugins[job]);
          } catch (const std::exception& error) {  // a file is missing
            results[job].err = error.what();
          }
        }
      });
    }
  }
  return results;
}

// The name of a member of the zoo: a plugin, or a kind and a fault.
std::string member_name(const BadPlugin& plugin) {
  return plugin.member.empty() ? fs::path(plugin.file).stem().string() : plugin.member;
}

bool contains(const nlohmann::json& text, const std::string& part) {
  return text.get<std::string>().find(part) != std::string::npos;
}

// Takes members (tests/support/members.hpp): two of each table in `./dev test`.
void check_findings(const std::vector<BadPlugin>& table) {
  const std::vector<BadPlugin> plugins = members_of(table, 2);
  const std::vector<CheckRun> runs = check_all(plugins);
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    const BadPlugin& plugin = plugins[i];
    const CheckRun& run = runs[i];
    INFO(plugin.file << " " << plugin.only << " " << plugin.recipe << "\n"
                     << run.err << run.report.dump(1));
    REQUIRE(run.report.is_object());
    std::set<std::string> failed;
    std::string found;
    std::string found_text;  // of the last check that failed, for the page
    for (const nlohmann::json& check : run.report["checks"]) {
      if (check["outcome"] == "failed") {
        failed.insert(check["name"].get<std::string>());
        found += check["found"].dump() + "\n";
        found_text = check["found"][0].get<std::string>();
        for (const nlohmann::json& line : check["found"]) {
          if (contains(line, plugin.says)) {
            found_text = line.get<std::string>();
          }
        }
        CHECK_FALSE(check["fix"].get<std::string>().empty());
      }
    }
    CHECK(failed == plugin.fails);
    checked_members().push_back({member_name(plugin), failed, plugin.says, found_text});
    CHECK_THAT(found, contains_text(plugin.says));
    CHECK(run.exit_code == (plugin.fails.empty() ? 0 : 4));
  }
}

// A plugin of tests/support/zoo.
BadPlugin in_zoo(const std::string& name,
                 const std::set<std::string>& fails,
                 const std::string& says = "") {
  return {.file = "zoo/" + name + ".so", .fails = fails, .says = says};
}

// A plugin of this folder.
BadPlugin in_faults(const std::string& name,
                    const std::set<std::string>& fails,
                    const std::string& says = "") {
  return {.file = "faults_zoo/" + name + "/" + name + ".so", .fails = fails, .says = says};
}

// A plugin of this folder that tenon_add_plugin() would not build.
BadPlugin in_twins(const std::string& name, const std::set<std::string>& fails) {
  return in_faults(name, fails, "4Twin");
}

// The loss that throws in one of its functions, checked by one check.
BadPlugin throwing(const std::string& name, const std::string& where, const std::string& check) {
  BadPlugin plugin = in_faults(name, {check}, name == "throws" ? "threw in " + where : "");
  plugin.recipe =
      small_recipe(R"({"loss": {"type": "throws", "options": {"where": ")" + where + R"("}}})");
  plugin.only = check;
  plugin.member = name + " in " + where;
  return plugin;
}

// A component of `misbehaves` with a fault, checked by one check or group.
BadPlugin with_fault(const std::string& kind,
                     const std::string& fault,
                     const std::string& check,
                     const std::string& says = "") {
  std::string patch = of_step(kind, fault, {}).patch;
  constexpr std::string_view kRank = "\"@RANK@\"";
  for (std::size_t at = patch.find(kRank); at != std::string::npos; at = patch.find(kRank)) {
    patch.replace(at, kRank.size(), "-1");
  }
  BadPlugin plugin = in_faults("misbehaves", {check}, says);
  plugin.recipe = small_recipe(patch);
  plugin.only = check;
  plugin.member = kind + " " + fault;
  return plugin;
}

BadPlugin with_limit(const std::string& limit_s, BadPlugin plugin) {
  plugin.limit_s = limit_s;
  return plugin;
}

// A component of `breaks_rules` with a fault, checked by all checks of its kind. "" is no fault.
BadPlugin with_broken_rule(const std::string& kind, const std::string& rule) {
  struct Use {
    const char* kind;
    const char* type;
    const char* patch;  // "@USE@" becomes an object of type and options, "@FIELDS@" its fields
  };
  static const std::vector<Use> uses = {
      {"model", "rule_model", R"({"model": @USE@, "data": {"train": {"type": "rule_map"}}})"},
      {"dataset", "rule_map", R"({"data": {"train": @USE@}})"},
      {"stream", "rule_stream", R"({"data": {"train": @USE@}})"},
      {"feature",
       "rule_feature",
       R"({"features": [{"name": "more", "from": "labels", "do": [@USE@]}]})"},
      {"loss", "rule_loss", R"({"loss": @USE@})"},
      {"metric", "rule_metric", R"({"metrics": [@USE@]})"},
      {"sparse_optimizer", "rule_rows", R"({"tables": {"t": {"optimizer": @USE@}}})"},
      {"parametrization",
       "rule_adapter",
       R"({"model": {"parametrizations": [{"match": "*.weight", @FIELDS@}]}})"},
      {"hook", "rule_hook", R"({"hooks": [@USE@]})"},
      {"metric_sink", "rule_sink", R"({"sinks": [@USE@]})"},
      {"storage", "rule_storage", R"({"checkpoint": {"at_end": false, "storage": @USE@}})"},
  };
  const auto use = std::ranges::find(uses, kind, &Use::kind);
  REQUIRE(use != uses.end());
  const std::string group = kind == "stream" ? "dataset" : kind;
  // Options of the recipe's own components do not fit, and are removed.
  const bool is_of_recipe = group == "model" || group == "dataset";
  const std::string own = group == "model"
                              ? R"("in_features": null, "hidden": null, "out_features": null, )"
                          : is_of_recipe ? R"("samples": null, )"
                                         : "";
  std::string patch = use->patch;
  const std::string fields = std::string(R"("type": ")") + use->type + R"(", "options": {)" + own +
                             R"("fault": ")" + rule + R"("})";
  const std::pair<std::string, std::string> marks[] = {{"@USE@", "{" + fields + "}"},
                                                       {"@FIELDS@", fields}};
  for (const auto& [mark, text] : marks) {
    if (const auto at = patch.find(mark); at != std::string::npos) {
      patch.replace(at, mark.size(), text);
    }
  }
  constexpr std::string_view kMap = R"({"type": "rule_map"})";
  if (const auto at = patch.find(kMap); at != std::string::npos) {
    patch.replace(at, kMap.size(), R"({"type": "rule_map", "options": {"samples": null}})");
  }
  std::set<std::string> fails;
  if (!rule.empty()) {
    fails.insert(group + "." + rule);
  }
  BadPlugin plugin = in_faults("breaks_rules", fails);
  plugin.recipe = small_recipe(patch);
  plugin.only = group;
  return plugin;
}

}  // namespace

TEST_CASE("the checker reads what is wrong with the file of a plugin", "[check][members]") {
  const std::string other = "static.compatible";
  std::vector<BadPlugin> plugins = {
      in_zoo("no_manifest", {"static.manifest", "static.one_export"}, "zoo_visitors"),
      in_zoo("wrong_manifest", {"static.manifest"}),
      in_zoo("wrong_range", {other}, "ABI 0.2"),
      in_zoo("wrong_abi", {other}, "ABI 0.9"),
      in_zoo("wrong_torch", {other}, "1.13.1"),
      in_zoo("wrong_lane", {other}, "python"),
      in_zoo("wrong_kind", {other}, "looss"),
      in_zoo("unknown_key", {other}, "!gpu"),
      in_zoo("missing_service", {other}, "tenon.foo/1"),
      in_zoo("shares_a", {"static.one_export", "static.no_unique_symbols"}, "Counter"),
      in_zoo("shares_b", {"static.one_export", "static.no_unique_symbols"}, "Counter"),
      in_zoo("no_entry", {"static.one_export", "load.loads"}),
      in_zoo(
          "brings_torch", {"static.library_path", "static.no_runtimes", "load.loads"}, "c10-0a1b"),
      in_zoo("undefined_symbol", {"static.no_host_symbols", "load.loads"}, "undefined symbol"),
      in_twins("twin_1", {"static.one_export"}),
      in_twins("twin_2", {"static.one_export"}),
      in_twins("shared_twin_1", {"static.one_export", "static.no_unique_symbols"}),
      in_twins("shared_twin_2", {"static.one_export", "static.no_unique_symbols"}),
      in_zoo("by_hand", {}),
  };
  for (BadPlugin& plugin : plugins) {
    plugin.only = plugin.fails.contains("load.loads") ? "" : "static";
  }
  check_findings(plugins);
}

TEST_CASE("the checker survives plugins that do not load", "[check][members]") {
  check_findings({
      in_zoo("throws_in_static", {"load.loads"}, "SIGABRT"),
      in_zoo("throws_in_entry", {"load.loads"}),
      in_zoo("crashes_in_entry", {"load.loads"}, "SIGSEGV"),
      in_zoo("overflows_stack", {"load.loads"}, "SIGSEGV"),
      in_zoo("exits_in_constructor", {"load.loads"}, "ended the process"),
      in_zoo("prints_and_aborts", {"load.loads"}, "SIGABRT"),
      in_zoo("refuses", {"load.loads"}),
      with_limit("2", in_zoo("hangs_in_entry", {"load.loads"}, "within 2 s")),
      in_faults("crashes_in_constructor", {"load.loads"}, "SIGSEGV"),
      with_limit("2", in_faults("hangs_in_constructor", {"load.loads"}, "within 2 s")),
      in_faults("exits_in_entry", {"load.loads"}, "status 0"),
      in_faults("garbage_from_entry", {"load.loads"}, "SIGSEGV"),
      in_faults("component_of_no_size", {"load.registers"}, "struct_size 0"),
      in_faults("component_of_huge_size", {"load.registers"}, "1099511627776"),
      in_faults("component_of_odd_size", {"load.registers"}, "struct_size"),
      in_zoo("registers_less", {"load.registers"}, "does not register loss:b"),
      in_zoo("registers_more", {"load.registers"}, "loss:b"),
      in_zoo("registers_twice", {"load.registers"}, "twice"),
      in_zoo("no_destroy", {"load.registers"}, "destroy"),
      in_zoo("small_component", {"load.registers"}),
      in_zoo("no_type", {"load.registers"}),
      in_zoo("other_interface", {"load.registers"}, "tenon.loss/9"),
      in_zoo("rubbish_table", {"load.registers"}),
      in_zoo("odd_table", {"load.registers"}),
      in_zoo("speaks_other_abi", {"negotiation.version"}, "ABI 0.7"),
      in_zoo("speaks_no_abi", {"negotiation.version"}, "out_abi_minor"),
      in_zoo("schema_no_json", {"options.schema"}, "not JSON"),
      in_zoo("schema_of_list", {"options.schema"}, "object"),
  });
}

TEST_CASE("the checker finds what a plugin changes when it is loaded", "[check][members]") {
  const std::string check = "load.keeps_process";
  check_findings({
      in_faults("rounds_to_zero", {check}, "the rounding mode"),
      in_faults("flushes_to_zero", {check}, "denormal"),
      in_faults("ignores_sigterm", {check}, "SIGTERM"),
      in_faults("sets_umask", {check}, "the umask"),
      in_faults("sets_locale", {check}, "the locale"),
      in_faults("sets_folder", {check}, "the working directory"),
      in_zoo("changes_process", {check}, "the rounding mode"),
  });
}

TEST_CASE("the checker finds plugins that do not load together, or do not end",
          "[check][members]") {
  BadPlugin conflict = in_zoo("conflicts_a", {"load.keeps_process", "load.beside_others"});
  conflict.only = "load";
  conflict.beside = {"zoo/conflicts_b.so"};
  BadPlugin crash = in_faults("crashes_in_shutdown", {"lifecycle.shutdown"}, "SIGSEGV");
  crash.only = "lifecycle";
  BadPlugin hang =
      with_limit("2", in_faults("hangs_in_shutdown", {"lifecycle.shutdown"}, "within"));
  hang.only = "lifecycle";
  check_findings({conflict, crash, hang});
}

TEST_CASE("the checker finds instances that mishandle a failing service", "[check][members]") {
  const std::string check = "lifecycle.failing_services";
  std::vector<BadPlugin> plugins = {in_zoo("ignores_failure", {check}, "succeeds after full"),
                                    in_zoo("leaks_on_failure", {check}, "leaves 1 tensor handles")};
  for (BadPlugin& plugin : plugins) {
    plugin.only = "lifecycle";
  }
  check_findings(plugins);
}

TEST_CASE("the checker finds broken rules of handles and of thread roles", "[check][members]") {
  const std::string handles = "calls.handles";
  const std::string roles = "calls.roles";
  check_findings({
      with_fault("loss", "input_kept", handles, "borrowed until its call returned (inputs[0] of"),
      with_fault(
          "loss", "used_after_release", handles, "passed to aten::sum a handle that was rel"),
      with_fault("loss", "sum_released_twice", handles, "released a handle twice, first in call"),
      with_fault("loss", "input_released", handles, "released a handle that it had only borrowed"),
      with_fault("loss", "input_returned", handles, "stored in out_sum_own a handle that it only"),
      with_fault("loss", "released_sum", handles, "stored in out_sum_own a handle that was rel"),
      with_fault("loss", "gradient_stored_twice", handles, "belongs to the host since call"),
      with_fault("loss", "handle_left", handles, "full made it in call 3 of compute of loss"),
      with_fault("loss", "handle_left", "recipe.calls", "tensor handles unreleased"),
      with_fault("loss", "computed_on_thread", roles, "in no call of the host, called call of"),
      with_fault("loss", "computed_on_thread", "recipe.calls", "in no call of the host"),
      with_fault("dataset", "writer_kept", roles, "called set_counts of the batch writer of call"),
      with_fault("dataset", "metric_added", roles, "which is [step], but read is [worker]"),
  });
}

TEST_CASE("the checker finds components that cannot be created or described", "[check][members]") {
  const std::string check = "options.defaults";
  check_findings({
      with_fault("loss", "ports_of_no_size", check, "struct_size 0"),
      with_fault("loss", "ports_of_huge_size", check, "1099511627776"),
      with_fault("loss", "ports_of_odd_size", check, "struct_size"),
      with_fault("loss", "write_past_info", check, "wrote past"),
      with_fault("loss", "unknown_flags", check, "flags"),
      with_fault("loss", "crash_in_create", check, "SIGSEGV in create of loss"),
      with_fault("loss", "exit_in_create", check, "status 0 in create of loss"),
      with_fault("loss", "crash_in_destroy", check, "SIGSEGV in describe or destroy of loss"),
      with_limit("2", with_fault("loss", "hang_in_create", check, "within 12 s in create of loss")),
      with_limit("2", with_fault("loss", "hang_in_destroy", check, "did not return")),
      with_fault("lr_scheduler", "write_past_info", check, "wrote past"),
      with_fault("optimizer", "slot_twice", check, "twice"),
      with_fault("metric", "state_with_spaces", check, "Two Words"),
      with_fault("metric", "metric_without_name", check, "no name"),
      with_fault("hook", "ask_for_unknown_event", check, "event"),
      with_fault("hook", "ask_for_unknown_phase", check, "phase 9"),
      with_fault("hook", "crash_in_create", check, "SIGSEGV in create of hook"),
      with_limit("2", with_fault("hook", "hang_in_describe", check, "did not return")),
  });
}

TEST_CASE("the checker finds wrong results of losses", "[check][members]") {
  const std::string results = "loss.results";
  const std::string gradients = "loss.gradients";
  BadPlugin untrained = in_faults("misbehaves", {gradients}, "no gradient");
  untrained.recipe = small_recipe(R"({"loss": {"type": "old_loss"}})");
  untrained.only = gradients;
  untrained.member = "loss without backward";
  check_findings({
      with_fault("loss", "count_of_minus_one", results, "-1"),
      with_fault("loss", "count_of_nan", results, "nan"),
      with_fault("loss", "count_of_i32", results, "Int"),
      with_fault("loss", "no_sum", results, "no tensor"),
      with_fault("loss", "sum_of_i64", results, "Long"),
      with_fault("loss", "sum_of_two", results, "[2]"),
      with_fault("loss", "released_sum", results, "released"),
      with_fault("loss", "garbage_sum", results, "not a handle"),
      with_fault("loss", "input_returned", results, "not a handle"),
      with_fault("loss", "sum_released_twice", results),
      with_fault("loss", "input_released", results),
      with_fault("loss", "garbage_status", results),
      with_fault("loss", "released_status", results),
      with_fault("loss", "status_released_twice", results),
      with_fault("loss", "short_gradient", gradients, "[1]"),
      with_fault("loss", "infinite_gradient", gradients, "inf"),
      with_fault("loss", "gradients_beyond_inputs", gradients, "more than 2"),
      with_fault("loss", "gradient_stored_twice", gradients, "twice"),
      untrained,
  });
}

TEST_CASE("the checker finds wrong results of other components", "[check][members]") {
  const std::string reads = "dataset.reads";
  check_findings({
      with_fault("optimizer", "write_nan", "optimizer.update", "non-finite"),
      with_fault("lr_scheduler", "factor_of_minus_three", "lr_scheduler.factors", "-3"),
      with_fault("lr_scheduler", "factor_of_nan", "lr_scheduler.factors", "nan"),
      with_fault("lr_scheduler", "factor_of_infinity", "lr_scheduler.factors", "inf"),
      with_fault("metric", "fail_in_compute", "metric.repeatable"),
      with_fault("metric", "append_garbage", "metric.repeatable"),
      with_fault("dataset", "unknown_field_flags", reads, "flags"),
      with_fault("dataset", "field_twice", reads, "twice"),
      with_fault("dataset", "size_below_zero", reads, "-7"),
      with_fault("dataset", "count_one_more", reads, "samples"),
      with_fault("dataset", "count_below_zero", reads, "-1 samples"),
      with_fault("dataset", "count_nothing", reads, "set_counts"),
      with_fault("dataset", "write_x_twice", reads, "twice"),
      with_fault("dataset", "write_field_99", reads, "99"),
      with_fault("dataset", "write_no_labels", reads, "labels"),
      with_fault("dataset", "write_five_columns", reads, "field"),
      with_fault("dataset", "write_garbage_tensor", reads),
      with_fault("dataset", "crash_in_read", reads, "SIGSEGV in read of dataset"),
      with_limit("2", with_fault("dataset", "hang_in_read", reads, "in read of dataset")),
      with_fault("stream", "four_billion_shards", reads, "4294967295"),
      with_fault("stream", "count_one_more", reads, "samples"),
      with_fault("stream", "no_position", "dataset.resume", "no position"),
      with_fault("stream", "position_of_two_mib", reads, "2097152 bytes"),
  });
}

TEST_CASE("the checker finds what shows only when a recipe trains", "[check][members]") {
  const std::string check = "recipe.trains";
  std::vector<BadPlugin> plugins;
  for (const std::string fault : {"value_of_no_size",
                                  "parameter_of_huge_size",
                                  "block_of_odd_size",
                                  "index_out_of_range",
                                  "cycle",
                                  "negative_size",
                                  "unknown_block_flags",
                                  "name_that_is_no_text",
                                  "name_with_slash",
                                  "name_of_10000_bytes",
                                  "name_of_null",
                                  "name_of_two",
                                  "no_output",
                                  "output_of_i64",
                                  "garbage_output"}) {
    plugins.push_back(with_fault("model", fault, check, "exit status"));
  }
  for (const std::string fault : {"read_through_null",
                                  "overflow_stack",
                                  "abort_run",
                                  "free_twice",
                                  "exit_with_0",
                                  "factor_of_minus_three",
                                  "factor_of_nan",
                                  "add_metric_loss",
                                  "parameter_into_short_view",
                                  "long_status",
                                  "declare_no_factor",
                                  "declare_no_field",
                                  "declare_no_loss",
                                  "declare_no_collective",
                                  "declare_no_read",
                                  "clear_parameter"}) {
    plugins.push_back(with_fault("hook", fault, check, "exit status"));
  }
  check_findings(plugins);
}

TEST_CASE("the checker finds each broken rule and blames no other", "[check][members]") {
  const std::map<std::string, std::vector<std::string>> rules = {
      {"model",
       {"graph",
        "results",
        "recompute",
        "gradients",
        "fp64",
        "views",
        "reads_only",
        "batch_sizes",
        "tokenwise",
        "context",
        "tensor",
        "generation"}},
      {"dataset", {"batches", "threads"}},
      {"stream", {"resume", "positions", "shards"}},
      {"feature", {"results", "repeatable", "samples", "threads"}},
      {"loss", {"views", "empty_batch"}},
      {"metric", {"views", "empty_batch"}},
      {"sparse_optimizer", {"update", "rows", "resume", "found_inf", "non_finite"}},
      {"parametrization", {"start", "repeatable", "gradients", "product"}},
      {"hook", {"events", "writes", "state"}},
      {"metric_sink", {"records", "resume", "missing_folder"}},
      {"storage", {"round_trip", "commit", "errors", "threads"}},
  };
  std::vector<BadPlugin> plugins;
  for (const auto& [kind, of_kind] : rules) {
    plugins.push_back(with_broken_rule(kind, ""));
    for (const std::string& rule : of_kind) {
      plugins.push_back(with_broken_rule(kind, rule));
    }
  }
  check_findings(plugins);
}

TEST_CASE("the checker finds faults of kinds that only a run uses", "[check][members]") {
  const std::string trains = "recipe.trains";
  BadPlugin hung = with_fault("hook", "never_return", trains, "has not returned for 2.0 s");
  hung.recipe = patched(hung.recipe, R"({"plugins": {"timeout_seconds": 2}})");
  check_findings({
      hung,
      throwing("throws", "create", "options.defaults"),
      throwing("throws", "compute", "loss.results"),
      throwing("throws_alone", "create", "options.defaults"),
      with_fault("hook", "exit_in_create", "options.defaults", "status 0 in create of hook"),
      with_limit("1", with_fault("hook", "hang_in_create", "options.defaults", "within 6 s")),
      with_fault("hook", "raise_segv", trains, "SIGSEGV"),
      with_fault("hook", "exit_at_once_with_0", trains, "exit status"),
      with_fault("hook", "clear_field", trains, "TENON_TOUCH_BATCH"),
      with_fault("hook", "clear_gradient", trains, "TENON_TOUCH_GRADIENTS"),
      with_fault("hook", "leak_tensors", "recipe.calls", "tensor handles unreleased"),
      with_fault("tokenizer", "no_vocabulary", trains, "vocab_size 0"),
      with_fault("feature", "a_thousand_outputs", trains, "1000"),
      with_fault("feature", "garbage_values", trains, "not a handle"),
      with_fault("stream", "write_nothing", trains, "no sample"),
      with_fault("stream", "write_huge_batch", trains, "exit status"),
  });
}

// The last of this file: it looks at the rows of all the others.
TEST_CASE("the page of the zoo has each member, with the checks that find it",
          "[check][.release]") {
  std::set<std::string> known;
  for (const ZooMember& member : checked_members()) {
    known.insert(member.name);
  }
  if (!known.contains("wrong_manifest") || !known.contains("hook raise_segv")) {
    WARN("the other cases of this test were not run");
    return;
  }
  for (const UncheckedMember& member : unchecked_members()) {
    INFO(member.name);
    CHECK(all_members().contains(member.name));
    CHECK_FALSE(known.contains(member.name));
    known.insert(member.name);
  }
  for (const std::string& name : all_members()) {
    INFO(name << " is in no row of this file; add a row, or the reason to unchecked_members()");
    CHECK(known.contains(name));
  }
  if (std::getenv("TENON_UPDATE_ZOO") != nullptr) {
    std::ofstream(zoo_page_path()) << zoo_page();
  }
  std::ifstream in(zoo_page_path());
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto on_page = rows_of_page(text);
  const auto expected = rows_of_page(zoo_page());
  for (const auto& [row, message] : expected) {
    INFO(row << " is not in " << zoo_page_path() << "; run this test with TENON_UPDATE_ZOO=1");
    CHECK(on_page.contains(row));
  }
  CHECK(on_page.size() == expected.size());
}

}  // namespace tenon
