// SPDX-License-Identifier: Apache-2.0
//
// The museum: the program runs binaries of plugins that were built long ago, with the results of
// that time, or refuses them for the stated reason. The same with plugins that were built with
// headers of another size (widen_headers.py).
#include <tenon/tenon.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;

constexpr std::array kRecipes = {"recipe.json", "recipe_stream.json"};

fs::path museum() {
  return source_dir() / "tests" / "museum";
}

// Plugins that this build has made with headers of another size.
fs::path built() {
  return build_dir() / "tests" / "museum";
}

constexpr const char* kNotX86 = "the binaries of the museum are for x86-64";
constexpr const char* kNotBuilt =
    "this build has no plugins with headers of another size: python3 was not found, or all of the "
    "build has widened headers";

bool is_x86() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

// Folders of the museum whose name is an ABI version, "0.4".
std::vector<std::string> versions() {
  std::vector<std::string> names = names_in(museum());
  std::erase_if(names, [](const std::string& name) {
    return !std::all_of(
        name.begin(), name.end(), [](unsigned char c) { return c == '.' || std::isdigit(c) != 0; });
  });
  return names;
}

// True if a host with these headers runs plugins of this version: convention 1 of abi.h.
bool is_supported(const std::string& version) {
  const std::size_t dot = version.find('.');
  const unsigned long major = std::stoul(version.substr(0, dot));
  const unsigned long minor = std::stoul(version.substr(dot + 1));
  return major == TENON_ABI_MAJOR &&
         (major == 0 ? minor == TENON_ABI_MINOR : minor <= TENON_ABI_MINOR);
}

std::vector<std::string> binaries(const std::string& version) {
  std::vector<std::string> names = names_in(museum() / version);
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".so"); });
  return names;
}

// Runs the program with only the given plugin folders. Each plugin is loaded in a child first.
SubprocessResult run_host(const std::vector<fs::path>& folders,
                          const std::vector<std::string>& more) {
  std::vector<std::string> words = {"timeout", "--signal=KILL", "120", host_program().string()};
  for (const fs::path& folder : folders) {
    words.insert(words.end(), {"--plugin-dir", folder.string()});
  }
  words.insert(words.end(), more.begin(), more.end());
  return run_subprocess(words);
}

SubprocessResult train(const fs::path& plugins,
                       const fs::path& recipe,
                       const fs::path& run_dir,
                       const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "--recipe", recipe.string(), "--run-dir", run_dir.string(), "--no-vet-cache"};
  words.insert(words.end(), more.begin(), more.end());
  return run_host({plugins}, words);
}

constexpr const char* kEventSize = "museum_hook/event_size";

// The records that the museum's sink wrote, without metrics that depend on the clock, and without
// the size of the host's tenon_event. The host has the headers that this test was built with.
json records_of(const fs::path& run_dir) {
  json records = json::array();
  std::size_t num_sizes = 0;
  for (const std::string& line : file_lines(run_dir / "museum.jsonl")) {
    json record = json::parse(line);
    for (const char* name :
         {"samples_per_second", "tokens_per_second", "step_seconds", "data_wait_seconds"}) {
      record.erase(name);
    }
    if (record.contains(kEventSize)) {
      CHECK(record[kEventSize] == sizeof(tenon_event));
      record.erase(kEventSize);
      ++num_sizes;
    }
    records.push_back(std::move(record));
  }
  CHECK(num_sizes > 0);
  return records;
}

// Compares what the run recorded with the golden records. Later hosts may record more.
void check_golden(const json& records, const json& golden) {
  REQUIRE(golden.size() >= 6);
  REQUIRE(records.size() == golden.size());
  for (std::size_t i = 0; i < golden.size(); ++i) {
    for (const auto& [name, value] : golden[i].items()) {
      INFO("record " << i << ": " << records[i].dump());
      INFO(name);
      REQUIRE(records[i].contains(name));
      // 1e-6 relative, and absolute for values that nearly cancel: processors differ in the last
      // bits.
      CHECK(records[i][name].get<double>() ==
            Approx(value.get<double>()).epsilon(1e-6).margin(1e-6));
    }
  }
}

json golden() {
  return json::parse(file_text(museum() / "golden.json"));
}

// Trains both recipes with the plugins in a folder, at once and with a stop, and compares all
// records with the golden ones.
void check_folder(const fs::path& plugins) {
  const json wanted = golden();
  for (const char* const recipe : kRecipes) {
    INFO(recipe << " with " << plugins.string());
    const ScratchFolder folder;
    const SubprocessResult whole = train(plugins, museum() / recipe, folder.path() / "whole");
    INFO(whole.out << whole.err);
    REQUIRE(whole.exit_code == 0);
    check_golden(records_of(folder.path() / "whole"), wanted.at(recipe));

    const SubprocessResult stopped = train(
        plugins, museum() / recipe, folder.path() / "parts", {"--set", "train.exit_at_step=5"});
    INFO(stopped.out << stopped.err);
    REQUIRE(stopped.exit_code == 75);
    const SubprocessResult resumed = train(plugins, museum() / recipe, folder.path() / "parts");
    INFO(resumed.out << resumed.err);
    REQUIRE(resumed.exit_code == 0);
    check_golden(records_of(folder.path() / "parts"), wanted.at(recipe));

    const SubprocessResult plan =
        run_host({plugins}, {"--recipe", (museum() / recipe).string(), "--plan", "2"});
    INFO(plan.out << plan.err);
    CHECK(plan.exit_code == 0);
    CHECK_THAT(plan.out, contains_text("each step: "));
  }
}

// A struct or table of which each plugin must have all fields and functions.
struct Required {
  const char* name;
  std::size_t size;                 // in the headers of this host
  const char* kind;                 // of the component that gives it to the host
  const char* interface = nullptr;  // null for a struct
  const char* function = nullptr;   // the last one of a table
};

#define REQUIRED(name, ...)          \
  Required {                         \
#name, sizeof(name), __VA_ARGS__ \
  }

// CMakeLists.txt builds a plugin for each of them, with headers in which it lacks its last field.
const std::vector<Required>& required() {
  static const std::vector<Required> kAll = {
      REQUIRED(tenon_block_spec, "model"),
      REQUIRED(tenon_buffer_spec, "model"),
      REQUIRED(tenon_component_ref, "dataset"),
      REQUIRED(tenon_dataset, "dataset", TENON_DATASET_ID, "reset"),
      REQUIRED(tenon_field_spec, "dataset"),
      REQUIRED(tenon_hook, "hook", TENON_HOOK_ID, "on_event"),
      REQUIRED(tenon_lr_group, "hook"),
      REQUIRED(tenon_lr_scheduler, "lr_scheduler", TENON_LR_SCHEDULER_ID, "factor"),
      REQUIRED(tenon_metric_state_spec, "metric"),
      REQUIRED(tenon_optimizer, "optimizer", TENON_OPTIMIZER_ID, "update"),
      REQUIRED(tenon_parameter_spec, "model"),
      REQUIRED(tenon_parameter_view, "hook"),
      REQUIRED(tenon_port, "loss"),
      REQUIRED(tenon_slot_spec, "optimizer"),
      REQUIRED(tenon_split, "model"),
      REQUIRED(tenon_stateful, "hook", TENON_STATEFUL_ID, "load"),
      REQUIRED(tenon_tensor_info, "loss"),
      REQUIRED(tenon_tokenizer, "tokenizer", TENON_TOKENIZER_ID, "decode"),
      REQUIRED(tenon_value_spec, "model")};
  return kAll;
}

// What the program prints about a component of a plugin that lacks the last field.
std::string reason(const Required& required, const fs::path& plugin) {
  const std::string component = std::string(required.kind) +
                                " \"older\" (plugin org.tenon.museum.older 1.0.0, " +
                                plugin.string() + ")";
  const std::string name = required.name;
  if (required.function != nullptr) {
    return "[plugin.missing_interface] " + component + " offers " + required.interface +
           " without its function \"" + required.function + "\"; set it in the registered table\n";
  }
  return component + ": " + name + " has struct_size " +
         std::to_string(required.size - sizeof(void*)) + ", expected a multiple of 8 from " +
         std::to_string(required.size) + " to 4096; set it to sizeof(" + name + ")\n";
}

SubprocessResult train_older(const std::string& build, const fs::path& run_dir) {
  return train(built() / "narrowed" / build, museum() / "older" / "recipe.json", run_dir);
}

}  // namespace

TEST_CASE("the museum has binaries of this ABI and of all before", "[museum]") {
  for (unsigned minor = 1; minor <= TENON_ABI_MINOR; ++minor) {
    const std::string version = std::to_string(TENON_ABI_MAJOR) + "." + std::to_string(minor);
    INFO("run tests/museum/build_binaries.sh: tests/museum/" << version << " has none");
    CHECK_FALSE(binaries(version).empty());
  }
  CHECK(binaries(TENON_ABI_STRING).size() >= 9);
}

TEST_CASE("binaries of each supported ABI version run, with the results of their time",
          "[museum]") {
  if (!is_x86()) {
    TENON_SKIP(kNotX86);
  }
  for (const std::string& version : versions()) {
    if (is_supported(version)) {
      check_folder(museum() / version);
    }
  }
}

TEST_CASE("a binary of another ABI version is refused with both versions", "[museum]") {
  if (!is_x86()) {
    TENON_SKIP(kNotX86);
  }
  std::size_t num_refused = 0;
  for (const std::string& version : versions()) {
    if (is_supported(version)) {
      continue;
    }
    const fs::path folder = museum() / version;
    const SubprocessResult list = run_host({folder}, {"--list-plugins", "--json"});
    INFO(list.out << list.err);
    REQUIRE(list.exit_code == 0);
    const json plugins = json::parse(list.out);
    REQUIRE(plugins.size() == binaries(version).size());
    const auto refusal_of = [&](const json& plugin) {
      return "[plugin.abi_mismatch] " + plugin.at("file").get<std::string>() + " (" +
             plugin.at("id").get<std::string>() + " 1.0.0) requires ABI " + version +
             ", host has " TENON_ABI_STRING "; rebuild it with SDK " TENON_ABI_STRING;
    };
    for (const json& plugin : plugins) {
      const std::string refusal = refusal_of(plugin);
      const std::string text = refusal.substr(refusal.find(' ') + 1);
      CHECK(plugin.at("state") == "refused");
      CHECK(plugin.at("error") == json{{"id", "plugin.abi_mismatch"}, {"message", text}});
      const json& component = plugin.at("components").at(0);
      const SubprocessResult used = run_host({folder},
                                             {"--describe",
                                              component.at("kind").get<std::string>() + ":" +
                                                  component.at("type").get<std::string>()});
      CHECK(used.exit_code == 4);
      std::string expected;  // a warning of each other binary, then the error
      for (const json& other : plugins) {
        expected += other == plugin ? "" : "warning: " + refusal_of(other) + "\n";
      }
      CHECK(used.err == expected + "host: " + refusal + "\n");
      ++num_refused;
    }
  }
  CHECK(num_refused >= 3);
}

TEST_CASE("a recipe that needs a refused binary ends before the first step", "[museum]") {
  if (!is_x86()) {
    TENON_SKIP(kNotX86);
  }
  const ScratchFolder folder;
  const fs::path old = museum() / "0.3";
  const SubprocessResult run = run_host({museum() / TENON_ABI_STRING, old},
                                        {"--recipe",
                                         (museum() / "recipe.json").string(),
                                         "--set",
                                         "loss.type=softmax_loss",
                                         "--run-dir",
                                         (folder.path() / "run").string()});
  CHECK(run.exit_code == 4);
  CHECK_THAT(
      run.err,
      contains_text(
          "[plugin.abi_mismatch] the recipe needs loss \"softmax_loss\": " +
          (old / "loss.so").string() +
          " (org.tenon.museum.softmax_loss 1.0.0) requires ABI 0.3, host has " TENON_ABI_STRING
          "; rebuild it with SDK " TENON_ABI_STRING "\n"));
  CHECK_FALSE(fs::exists(folder.path() / "run"));
}

TEST_CASE("plugins whose structs, tables and enums have one entry more run with equal results",
          "[museum][built]") {
  if (!TENON_MUSEUM_IS_BUILT) {
    TENON_SKIP(kNotBuilt);
  }
  check_folder(built() / "widened");
}

TEST_CASE("each struct that plugins allocate is built without its last field", "[museum][built]") {
  if (!TENON_MUSEUM_IS_BUILT) {
    TENON_SKIP(kNotBuilt);
  }
  std::set<std::string> names = {"none", "optional"};
  for (const Required& required : required()) {
    names.insert(required.name);
  }
  const std::vector<std::string> folders = names_in(built() / "narrowed");
  CHECK(std::set<std::string>(folders.begin(), folders.end()) == names);
  const std::set<std::string> drafts = {"tenon_source_file",
                                        "tenon_layout_tensor",
                                        "tenon_render_args",
                                        "tenon_row_slot_spec",
                                        "tenon_text_request",
                                        "tenon_text_result"};
  const std::set<std::string> of_tokenizers = {"tenon_special_token"};  // not in the museum
  const std::string header = file_text(source_dir() / "host" / "tensor" / "sized_struct.hpp");
  const std::regex listed(R"(\nTENON_SIZED_STRUCT\((\w+), )");
  std::size_t num_listed = 0;
  for (std::sregex_iterator i(header.begin(), header.end(), listed), end; i != end; ++i) {
    INFO((*i)[1]);
    CHECK((names.count((*i)[1]) == 1 || drafts.count((*i)[1]) == 1 ||
           of_tokenizers.count((*i)[1]) == 1));
    ++num_listed;
  }
  CHECK(num_listed >= 15);
}

TEST_CASE("a plugin whose structs lack a required field is refused with struct and sizes",
          "[museum][built]") {
  if (!TENON_MUSEUM_IS_BUILT) {
    TENON_SKIP(kNotBuilt);
  }
  const ScratchFolder folder;
  for (const Required& required : required()) {
    INFO(required.name);
    const SubprocessResult run = train_older(required.name, folder.path() / required.name);
    INFO(run.out << run.err);
    // tenon_tensor_info is the only one that is first used in a step.
    CHECK(run.exit_code == (std::string(required.name) == "tenon_tensor_info" ? 5 : 4));
    const bool is_table = required.function != nullptr;
    CHECK_THAT(run.err,
               contains_text(is_table ? "[plugin.missing_interface]" : "[plugin.bad_struct]"));
    CHECK_THAT(run.err,
               contains_text(reason(required, built() / "narrowed" / required.name / "older.so")));
  }
}

TEST_CASE("a plugin that lacks only optional fields runs, as one that lacks nothing",
          "[museum][built]") {
  if (!TENON_MUSEUM_IS_BUILT) {
    TENON_SKIP(kNotBuilt);
  }
  const ScratchFolder folder;
  for (const char* const build : {"none", "optional"}) {
    const SubprocessResult run = train_older(build, folder.path() / build);
    INFO(build << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.out, contains_text("done: reached 1 step"));
  }
}

// Hidden: it makes the golden data. Run it by its tag, only for a new recipe or new plugins.
TEST_CASE("golden records are written", "[.write_golden]") {
  json records = json::object();
  for (const char* const recipe : kRecipes) {
    const ScratchFolder folder;
    const SubprocessResult run =
        train(museum() / TENON_ABI_STRING, museum() / recipe, folder.path() / "run");
    INFO(run.out << run.err);
    REQUIRE(run.exit_code == 0);
    records[recipe] = records_of(folder.path() / "run");
    REQUIRE(records[recipe].size() >= 6);
  }
  std::ofstream out(museum() / "golden.json");
  out << records.dump(1) << "\n";
  REQUIRE(out.flush().good());
}

}  // namespace tenon
