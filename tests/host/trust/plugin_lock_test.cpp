// SPDX-License-Identifier: Apache-2.0
#include "host/trust/plugin_lock.hpp"

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

namespace fs = std::filesystem;

namespace {

const std::string kHashA(64, 'a');
const std::string kHashB(64, 'b');

UsedPluginFile used_plugin(const std::string& id,
                           const std::string& version,
                           const std::string& hash) {
  return {.id = id,
          .version = version,
          .hash = "sha256:" + hash,
          .file = "build/plugins/" + id + ".so",
          .components = {"loss:" + id}};
}

std::string lock_error_of(const std::string& file) {
  try {
    (void)read_plugin_lock(file);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

using DifferenceTexts = std::vector<std::string>;

}  // namespace

TEST_CASE("a lock is beside its recipe", "[plugin]") {
  CHECK(lock_file_of("recipes/a.json") == "recipes/plugins.lock");
  CHECK(lock_file_of("a.json") == "plugins.lock");
  CHECK(lock_file_of("/a.json") == "/plugins.lock");
}

TEST_CASE("what was locked is read again", "[plugin]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "plugins.lock").string();
  CHECK_FALSE(read_plugin_lock(file));
  const UsedPluginFile used[] = {used_plugin("b", "2.0.0", kHashB),
                                 used_plugin("a", "1.0.0", kHashA)};
  write_plugin_lock(file, lock_with({}, "r.json", used));
  CHECK(nlohmann::json::parse(file_text(file)) == nlohmann::json::parse(R"({
    "format": 1, "abi": "0.5", "plugins": [
      {"id": "a", "version": "1.0.0", "sha256": ")" + kHashA + R"(", "file": "a.so",
       "components": ["loss:a"], "recipes": ["r.json"]},
      {"id": "b", "version": "2.0.0", "sha256": ")" + kHashB + R"(", "file": "b.so",
       "components": ["loss:b"], "recipes": ["r.json"]}]})"));
  const PluginLock lock = read_plugin_lock(file).value();
  CHECK(is_locked(lock, "r.json"));
  CHECK_FALSE(is_locked(lock, "other.json"));
  CHECK(lock_differences(lock, "r.json", used).empty());
}

TEST_CASE("each difference from a lock is named", "[plugin]") {
  const UsedPluginFile before[] = {used_plugin("changed", "1.0.0", kHashA),
                                   used_plugin("gone", "1.0.0", kHashA),
                                   used_plugin("newer", "1.0.0", kHashA),
                                   used_plugin("same", "1.0.0", kHashA)};
  PluginLock lock = lock_with({}, "r.json", before);
  const UsedPluginFile now[] = {used_plugin("added", "0.1.0", kHashB),
                                used_plugin("changed", "1.0.0", kHashB),
                                used_plugin("newer", "1.1.0", kHashB),
                                used_plugin("same", "1.0.0", kHashA)};
  CHECK(lock_differences(lock, "r.json", now) ==
        DifferenceTexts{
            "changed 1.0.0: build/plugins/changed.so has other bytes (SHA-256 bbbbbbbbbbbb..., "
            "locked aaaaaaaaaaaa...)",
            "gone 1.0.0 (gone.so) is locked and not loaded",
            "newer: version 1.1.0 (locked 1.0.0), build/plugins/newer.so",
            "added 0.1.0 (build/plugins/added.so) is loaded and not locked"});
  lock.abi = "0.3";
  CHECK(lock_differences(lock, "r.json", before) ==
        DifferenceTexts{"the host has ABI 0.5 (locked 0.3)"});
}

TEST_CASE("recipes of a folder share a lock", "[plugin]") {
  const UsedPluginFile shared = used_plugin("shared", "1.0.0", kHashA);
  const UsedPluginFile a = used_plugin("a", "1.0.0", kHashA);
  const UsedPluginFile b = used_plugin("b", "1.0.0", kHashA);
  const UsedPluginFile of_a[] = {shared, a};
  const UsedPluginFile of_b[] = {shared, b};
  PluginLock lock = lock_with(lock_with({}, "a.json", of_a), "b.json", of_b);
  REQUIRE(lock.plugins.size() == 3);
  CHECK(lock.plugins[2].recipes == DifferenceTexts{"a.json", "b.json"});
  CHECK(lock_differences(lock, "a.json", of_a).empty());  // "b" is not its own
  CHECK(lock_differences(lock, "b.json", of_b).empty());

  // Another file of a shared plugin is a difference for both, until it is locked for one of them.
  const UsedPluginFile of_a_now[] = {used_plugin("shared", "1.0.0", kHashB)};
  CHECK(lock_differences(lock, "a.json", of_a_now).size() == 2);
  lock = lock_with(std::move(lock), "a.json", of_a_now);
  REQUIRE(lock.plugins.size() == 2);  // nobody uses "a" any more
  CHECK(lock.plugins[1].sha256 == kHashB);
  CHECK(lock.plugins[1].recipes == DifferenceTexts{"a.json", "b.json"});
}

TEST_CASE("a lock that cannot be used is an error that says why", "[plugin]") {
  const ScratchFolder folder;
  const auto lock_error_of_text = [&](const std::string& text) {
    return lock_error_of(folder.write("plugins.lock", text).string());
  };
  const std::string entry =
      R"({"id": "a", "version": "1", "file": "a.so", "components": [], "recipes": [], "sha256": ")";
  CHECK(lock_error_of_text(R"({"format": 1, "abi": "0.5", "plugins": [)" + entry + kHashA + "\"}]}")
            .empty());
  CHECK_THAT(lock_error_of_text(""),
             contains_text("plugins.lock is corrupt: it is not valid JSON"));
  CHECK_THAT(lock_error_of_text("{\"format\": 1"),
             contains_text("is corrupt: it is not valid JSON"));
  CHECK_THAT(lock_error_of_text(R"({"format": 1, "abi": "0.5"})"),
             contains_text("is corrupt: a key is missing or has a wrong type"));
  for (const char* const text : {"[]",
                                 "7",
                                 R"({"format": "1", "abi": "0.5", "plugins": []})",
                                 R"({"format": 1, "abi": "0.5", "plugins": [7]})",
                                 R"({"format": 1, "abi": "0.5", "plugins": [{"id": "a"}]})",
                                 R"({"format": 1, "abi": "0.5", "plugins": [[[[[[]]]]]]})"}) {
    INFO(text);
    CHECK_THAT(lock_error_of_text(text), contains_text("[plugin.bad_lock]"));
    CHECK_THAT(lock_error_of_text(text), contains_text("write it again with --lock"));
  }
  CHECK_THAT(
      lock_error_of_text(R"({"format": 1, "abi": "0.5", "plugins": [)" + entry + "short\"}]}"),
      contains_text("is corrupt: an entry has no id or no SHA-256 of 64 digits"));
  CHECK_THAT(lock_error_of_text(R"({"format": 2, "anything": []})"),
             contains_text("has format 2, this host reads format 1; use a newer host"));
  CHECK_THAT(lock_error_of_text(R"({"format": 0})"), contains_text("has the unknown format 0"));
}

TEST_CASE("a link or a folder in place of a lock is neither read nor written", "[plugin]") {
  const ScratchFolder folder;
  const fs::path target =
      folder.write("elsewhere", R"({"format": 1, "abi": "0.5", "plugins": []})");
  const std::string text = file_text(target);
  const fs::path file = folder.path() / "plugins.lock";
  fs::create_symlink(target, file);
  CHECK_THAT(lock_error_of(file.string()), contains_text("is a symbolic link"));
  CHECK_THROWS_AS(write_plugin_lock(file.string(), {}), Error);
  CHECK(file_text(target) == text);
  fs::remove(file);
  fs::create_symlink(folder.path() / "nothing", file);
  CHECK_THAT(lock_error_of(file.string()), contains_text("is a symbolic link"));
  fs::remove(file);
  fs::create_directory(file);
  CHECK_THAT(lock_error_of(file.string()), contains_text("is not a regular file"));
  CHECK_THROWS_AS(write_plugin_lock(file.string(), {}), Error);
}
