// SPDX-License-Identifier: Apache-2.0
//
// Plugins are files of their own: each can be removed or replaced without a rebuild, and none needs
// a symbol of the host. new_plugin_test.cpp builds plugins outside the tree.
#include <algorithm>
#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

void run(const std::vector<std::string>& words, const fs::path& in, int expected = 0) {
  const SubprocessResult result =
      run_subprocess(words, {.working_dir = in.string(), .environment = {}});
  INFO(words.front() << " printed:\n" << result.out << result.err);
  REQUIRE(result.exit_code == expected);
}

std::string exported_symbols(const fs::path& library, const std::string& kind) {
  const SubprocessResult result =
      run_subprocess({"nm", "-D", "--" + kind + "-only", library.string()});
  REQUIRE(result.exit_code == 0);
  return result.out;
}

}  // namespace

TEST_CASE("a first-party plugin can be removed and replaced without a rebuild", "[sdk]") {
  const ScratchFolder scratch;
  const fs::path plugins = scratch.path() / "plugins";
  fs::copy(plugin_dir(), plugins);
  const fs::path recipe = scratch.write("recipe.json", R"({
    "name": "swap", "threads": {"compute": 1},
    "model": {"type": "mlp", "options": {"in_features": 4, "out_features": 1}},
    "data": {"batch_size": 4, "train": {"type": "windows"}},
    "loss": {"type": "mse", "inputs": {"targets": "y"}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "lr_scheduler": {"type": "linear"},
    "train": {"steps": 3}
  })");
  struct Swap {
    const char* removed;
    std::vector<std::string> sets;
  };
  const std::vector<Swap> swaps = {{"mse", {"loss={\"type\":\"plain_loss\"}"}},
                                   {"adamw", {"optimizer.type=sgd"}},
                                   {"linear", {"lr_scheduler.type=constant"}},
                                   {"jsonl", {"sinks=[]"}}};
  int number = 0;
  for (const Swap& swap : swaps) {
    INFO(swap.removed);
    std::vector<std::string> words = {
        host_program().string(),
        "--recipe",
        recipe.string(),
        "--plugin-dir",
        plugins.string(),
        "--plugin-dir",
        test_plugin_dir().string(),
        "--run-dir",
        (scratch.path() / ("run" + std::to_string(++number))).string()};
    fs::rename(plugins / (std::string(swap.removed) + ".so"), scratch.path() / "away.so");
    run(words, scratch.path(), 3);  // named, and not there
    for (const std::string& set : swap.sets) {
      words.insert(words.end(), {"--set", set});
    }
    run(words, scratch.path());
    fs::rename(scratch.path() / "away.so", plugins / (std::string(swap.removed) + ".so"));
  }
}

TEST_CASE("no plugin needs a symbol of the host, and each exports its entry alone", "[sdk]") {
  int num_plugins = 0;
  for (const auto& entry : fs::directory_iterator(plugin_dir())) {
    if (entry.path().extension() != ".so") {
      continue;
    }
    INFO(entry.path());
    ++num_plugins;
    CHECK(exported_symbols(entry.path(), "undefined").find("tenon") == std::string::npos);
    const std::string defined = exported_symbols(entry.path(), "defined");
    CHECK_THAT(defined, contains_text(" T tenon_plugin_entry\n"));
    CHECK(std::count(defined.begin(), defined.end(), '\n') == 1);
  }
  CHECK(num_plugins >= 14);
}

}  // namespace tenon
