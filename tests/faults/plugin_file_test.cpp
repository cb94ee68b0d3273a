// SPDX-License-Identifier: Apache-2.0
//
// What may lie in a plugin folder beside plugins that work. It costs a warning where it is not
// needed, and ends a run that needs it, before anything is begun.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

struct Bad {
  std::string name;  // in the zoo
  std::string id;
  std::string offers = "zoo";  // a loss, by its manifest
};

const Bad kBad[] = {
    {"wrong_abi", "plugin.abi_mismatch"},
    {"wrong_range", "plugin.abi_mismatch"},
    {"unknown_key", "plugin.abi_mismatch"},
    {"missing_service", "plugin.missing_interface"},
    {"shares_a", "plugin.shared_symbol"},
    {"wrong_torch", "plugin.torch_mismatch"},
    {"brings_torch", "plugin.torch_mismatch"},
    {"wrong_manifest", "plugin.bad_manifest"},
    {"no_entry", "plugin.load_failed"},
    {"undefined_symbol", "plugin.load_failed"},
    {"refuses", "plugin.entry_failed"},
    {"registers_less", "plugin.components_differ", "a"},
    {"crashes_in_entry", "plugin.crashed"},
    {"throws_in_static", "plugin.crashed"},
    {"exits_in_constructor", "plugin.crashed"},
};

const std::string one_step = small_recipe(R"({"train": {"steps": 1}})");

std::string folder_arg(const ScratchFolder& folder) {
  return folder.path().string();
}

void add_from_zoo(const ScratchFolder& folder, const std::string& name) {
  fs::copy_file(build_dir() / "tests/zoo" / (name + ".so"), folder.path() / (name + ".so"));
}

}  // namespace

TEST_CASE("an unusable plugin causes a warning, and ends a run that needs it",
          "[faults][.release]") {
  for (const Bad& bad : kBad) {
    const ScratchFolder folder;
    add_from_zoo(folder, bad.name);
    const std::string file = (folder.path() / (bad.name + ".so")).string();
    const HostRun without(one_step, {"--plugin-dir", folder_arg(folder)});
    INFO(bad.name << "\n" << without.result().err);
    CHECK(without.result().exit_code == 0);
    CHECK(count_of(without.result().err, "\n") == 1);
    CHECK_THAT(without.result().err, contains_text("warning: [" + bad.id + "] " + file));
    const HostRun with(small_recipe(R"({"loss": {"type": ")" + bad.offers + R"("}})"),
                       {"--plugin-dir", folder_arg(folder)});
    INFO(with.result().err);
    CHECK_FALSE(fs::exists(with.run_dir()));
    const bool is_offered = bad.id != "plugin.bad_manifest";
    CHECK(with.result().exit_code == (is_offered ? 4 : 3));
    CHECK(count_of(with.result().err, "[" + bad.id + "]") == 1);  // and not twice
  }
}

TEST_CASE("text files, truncated files and foreign libraries in a plugin folder are harmless",
          "[faults]") {
  const ScratchFolder folder;
  folder.write("README.md", "not a plugin\n");
  folder.write("text.so", "not a library\n");
  folder.write("empty.so", "");
  fs::copy_file("/proc/self/exe", folder.path() / "program.so");
  std::ifstream whole(build_dir() / "tests/zoo" / "good_c.so", std::ios::binary);
  std::string bytes(3000, '\0');
  whole.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  folder.write("cut.so", bytes);
  fs::create_symlink(folder.path() / "nothing.so", folder.path() / "dangling.so");
  fs::create_directory(folder.path() / "folder.so");
  add_from_zoo(folder, "no_manifest");
  const HostRun run(one_step, {"--plugin-dir", folder_arg(folder)});
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  // What can be no plugin of this machine is named, once; a library beside plugins is not.
  CHECK(count_of(run.result().err, "\n") == 4);
  CHECK_THAT(run.result().err, contains_text("/text.so is not a plugin: "));
  CHECK_THAT(run.result().err, contains_text("/empty.so is not a plugin: "));
  CHECK_THAT(run.result().err, contains_text("[plugin.bad_manifest] "));
  CHECK_THAT(run.result().err, contains_text("/cut.so"));
  CHECK_THAT(run.result().err, contains_text("the file is truncated"));
  CHECK_THAT(run.result().err, contains_text("[plugin.load_failed] "));
  CHECK_THAT(run.result().err, contains_text("/dangling.so"));
  const HostRun again(one_step, {"--plugin-dir", folder_arg(folder)});
  CHECK(count_of(again.result().err, "\n") == 1);
  CHECK_THAT(again.result().err, contains_text("/dangling.so"));
}

TEST_CASE("a plugin folder that is missing, empty or a file is reported", "[faults]") {
  const ScratchFolder folder;
  const auto file = folder.write("file", "x");
  for (const fs::path& bad : {folder.path() / "absent", file, file / "below"}) {
    const HostRun run(small_recipe(), {"--plugin-dir", bad.string()});
    INFO(run.result().err);
    CHECK(run.result().exit_code == 2);
    CHECK_THAT(run.result().err, contains_text("[plugin.dir_unreadable]"));
    CHECK_THAT(run.result().err, contains_text(bad.string()));
    CHECK_FALSE(fs::exists(run.run_dir()));
  }
  const auto recipe = folder.write("r.json", small_recipe());
  fs::create_directory(folder.path() / "empty");
  const SubprocessResult empty = run_subprocess({host_program().string(),
                                                 "--recipe",
                                                 recipe.string(),
                                                 "--plugin-dir",
                                                 (folder.path() / "empty").string()},
                                                {.working_dir = folder.path().string()});
  INFO(empty.err);
  CHECK(empty.exit_code == 3);
  CHECK_THAT(empty.err, contains_text("[recipe.unknown_type]"));
  CHECK_THAT(empty.err, contains_text("empty"));
  CHECK_FALSE(fs::exists(folder.path() / "runs"));
}

}  // namespace tenon
