// SPDX-License-Identifier: Apache-2.0
//
// Plugins in Rust: a panic becomes a status, rustc alone builds a plugin that passes all checks,
// and a build without a compiler of Rust says what to install.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

// Whether the plugins in Rust were built.
bool has_rust() {
  return fs::exists(test_plugin_dir() / "rust_panics.so");
}

constexpr char kNoRust[] = "the build found no rustc 1.63 or newer";

// A run with a hook that panics, or fails, at a call.
HostRun panicking(const std::string& at, const std::string& how) {
  return HostRun(small_recipe(R"({"hooks": [{"type": "rust_panics", "options": {"at": ")" + at +
                              R"(", "how": ")" + how + R"("}}]})"));
}

// Configures a project whose plugin is in Rust, with a setting of the project.
SubprocessResult configured(const std::string& setting) {
  const ScratchFolder folder;
  folder.write("CMakeLists.txt",
               "cmake_minimum_required(VERSION 3.25)\n"
               "project(p LANGUAGES C)\n" +
                   setting +
                   "\n"
                   "find_package(Tenon REQUIRED)\n"
                   "tenon_add_plugin(p ID org.example.p VERSION 0.1.0 LANE stable\n"
                   "                 COMPONENTS loss:p SOURCES p.rs)\n");
  folder.write("p.rs", "");
  return run_subprocess({"cmake",
                         "-B",
                         (folder.path() / "build").string(),
                         "-S",
                         folder.path().string(),
                         "-DCMAKE_PREFIX_PATH=" + (build_dir() / "sdk-stage").string()});
}

// A message without the line breaks that CMake puts into it.
std::string unwrapped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space || (!result.empty() && result.back() != ' ')) {
      result += is_space ? ' ' : c;
    }
  }
  return result;
}

}  // namespace

TEST_CASE("a panic in Rust ends the run with plugin, component, message and place", "[sdk]") {
  if (!has_rust()) {
    TENON_SKIP(kNoRust);
  }
  const std::string hook = "hook \"rust_panics\" (plugin org.tenon.test.rust_panics 0.1.0, ";
  const std::vector<std::vector<std::string>> ways = {
      {"create", "text", "create failed: panicked: asked to panic at create [panic]"},
      {"describe", "value", "describe failed: panicked: a value that is no text [panic]"},
      {"on_event", "index", "on_event failed: panicked: index out of bounds: the len is 0"},
      {"on_event", "error", ": asked to fail [rust_panics.asked]"},
      {"snapshot", "text", "snapshot failed: panicked: asked to panic at snapshot [panic]"},
  };
  for (const std::vector<std::string>& way : ways) {
    const HostRun run = panicking(way[0], way[1]);
    INFO(way[0] << " " << way[1] << "\n" << run.result().err);
    const bool is_early = way[0] == "create" || way[0] == "describe";
    CHECK(run.result().exit_code == (is_early ? 4 : 5));
    CHECK_THAT(run.result().err, contains_text("[plugin.failed] "));
    CHECK_THAT(run.result().err, contains_text(hook));
    CHECK_THAT(run.result().err, contains_text(way[2]));
    CHECK_THAT(run.result().err, contains_text(" at rust_panics.rs:"));
    CHECK_THAT(run.result().err, !contains_text("RUST_BACKTRACE"));
  }
}

TEST_CASE("a panic of a Rust destructor is logged, and the run succeeds", "[sdk]") {
  if (!has_rust()) {
    TENON_SKIP(kNoRust);
  }
  const HostRun run = panicking("destroy", "text");
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK_THAT(
      run.result().out + run.result().err,
      contains_text("org.tenon.test.rust_panics: [panic] panicked: asked to panic at destroy"));
}

TEST_CASE("a plugin that rustc alone builds passes the checks, also if it is stripped", "[sdk]") {
  if (!has_rust()) {
    TENON_SKIP(kNoRust);
  }
  const ScratchFolder folder;
  const fs::path plugin = folder.path() / "by_hand_rust.so";
  const SubprocessResult stripped =
      run_subprocess({"strip", "-o", plugin.string(), build_dir() / "tests/zoo/by_hand_rust.so"});
  INFO(stripped.err);
  REQUIRE(stripped.exit_code == 0);
  const SubprocessResult symbols = run_subprocess({"nm", "-D", "--defined-only", plugin.string()});
  CHECK_THAT(symbols.out, contains_text(" T tenon_plugin_entry\n"));
  CHECK(std::count(symbols.out.begin(), symbols.out.end(), '\n') == 1);
  const SubprocessResult checked = run_subprocess({host_program().string(),
                                                   "--check-plugin",
                                                   plugin.string(),
                                                   "--plugin-dir",
                                                   folder.path().string(),
                                                   "--seed",
                                                   "1",
                                                   "--json"});
  INFO(checked.out << checked.err);
  CHECK(checked.exit_code == 0);
  CHECK_THAT(checked.out, contains_text("org.tenon.zoo.by_hand_rust"));
}

TEST_CASE("a plugin in Rust without a compiler is refused with the remedy", "[sdk]") {
  const std::string needs = "a plugin in Rust needs rustc 1.63 or newer, ";
  const std::string remedy =
      "; install it (on Debian, the package rustc), or set TENON_RUSTC to its path";
  const SubprocessResult missing = configured(
      "set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)\n"
      "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)");
  CHECK(missing.exit_code != 0);
  CHECK_THAT(unwrapped(missing.err), contains_text(needs + "which was not found" + remedy));

  const ScratchFolder folder;
  const std::string old =
      folder.write("rustc", "#!/bin/sh\necho 'rustc 1.62.1 (e092d0b6b)'\n").string();
  fs::permissions(old, fs::perms::owner_all);
  const SubprocessResult too_old = configured("set(TENON_RUSTC " + old + ")");
  CHECK(too_old.exit_code != 0);
  CHECK_THAT(unwrapped(too_old.err),
             contains_text(needs + "but " + old + " is version 1.62.1" + remedy));

  const std::string broken =
      folder.write("broken", "#!/bin/sh\necho no toolchain >&2\nexit 1\n").string();
  fs::permissions(broken, fs::perms::owner_all);
  const SubprocessResult failed = configured("set(TENON_RUSTC " + broken + ")");
  CHECK(failed.exit_code != 0);
  CHECK_THAT(unwrapped(failed.err),
             contains_text(needs + "but `" + broken + " --version` failed: no toolchain" + remedy));
}

}  // namespace tenon
