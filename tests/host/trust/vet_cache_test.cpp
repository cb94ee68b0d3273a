// SPDX-License-Identifier: Apache-2.0
#include "host/trust/vet_cache.hpp"

#include "host/io/content_hash.hpp"
#include "host/plugin/plugin_scan.hpp"
#include "host/plugin/plugin_trial.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <unistd.h>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

void store(VetCache& cache, const std::string& plugin, const Verdict& verdict) {
  cache.store(plugin, file_stamp(plugin).value(), verdict);
}

const Verdict kGood{};

Verdict crash_of(const std::string& file) {
  return {.id = "plugin.crashed",
          .message = file + " crashed",
          .details = "its last words",
          .signal = "SIGSEGV",
          .backtrace = {"a.so(f+0x1) [0x2]", "b.so(g+0x3) [0x4]"}};
}

}  // namespace

TEST_CASE("a verdict is remembered for a file and a host", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache first(zoo.cache_file(), "host 1");
  CHECK_FALSE(first.find(plugin));
  store(first, plugin, crash_of(plugin));
  first.save();

  VetCache second(zoo.cache_file(), "host 1");
  const std::optional<Verdict> found = second.find(plugin);
  REQUIRE(found);
  CHECK(found->id == "plugin.crashed");
  CHECK(found->message.starts_with(plugin + " crashed (cached since 20"));
  CHECK(found->details == "its last words");
  CHECK(found->signal == "SIGSEGV");
  CHECK(found->backtrace == crash_of(plugin).backtrace);

  VetCache other(zoo.cache_file(), "host 2");
  CHECK_FALSE(other.find(plugin));
}

TEST_CASE("a remembered message names the file as it is named now", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  store(cache, plugin, crash_of(plugin));
  const std::string other_name = zoo.path() + "/../plugins/good_c.so";
  CHECK(cache.find(other_name)->message.starts_with(other_name + " crashed ("));
}

TEST_CASE("a file that changed is not known, one that was touched is", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  store(cache, plugin, kGood);

  const std::string bytes = read_text(plugin);
  const auto stamp = file_stamp(plugin);
  std::filesystem::remove(plugin);
  zoo.write("good_c.so", bytes);
  REQUIRE(file_stamp(plugin) != stamp);
  CHECK(cache.find(plugin));

  std::string changed = bytes;
  changed.back() = static_cast<char>(changed.back() + 1);
  zoo.write("good_c.so", changed);
  CHECK_FALSE(cache.find(plugin));
  std::filesystem::remove(plugin);
  CHECK_FALSE(cache.find(plugin));
}

TEST_CASE("a cached refusal says since when, and how to check the plugin again", "[plugin]") {
  ZooFolder zoo;
  const std::string refused = zoo.add("crashes_in_entry");
  const std::string good = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  store(cache, refused, crash_of(refused));
  store(cache, good, kGood);
  const std::string message = cache.find(refused)->message;
  CAPTURE(message);
  CHECK(std::regex_match(
      message,
      std::regex(R"(.* crashed \(cached since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; )"
                 R"(pass --no-vet-cache to check the plugin again\))")));
  CHECK(cache.find(refused)->message == message);  // it is not appended twice
  CHECK(cache.find(good)->message == "");
}

TEST_CASE("a verdict that the file alone did not cause is not remembered", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  Verdict killed = crash_of(plugin);
  killed.is_lasting = false;
  store(cache, plugin, killed);
  CHECK_FALSE(cache.find(plugin));
  store(cache, plugin, {"plugin.hung", plugin + " hung", ""});
  CHECK_FALSE(cache.find(plugin));
}

TEST_CASE("what depends on more than the file is not remembered", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  for (const char* const id :
       {"plugin.load_failed", "plugin.entry_failed", "plugin.torch_mismatch"}) {
    store(cache, plugin, {id, "m", ""});
    CHECK_FALSE(cache.find(plugin));
  }
  // The file was replaced while it was being vetted.
  FileStamp stamp = file_stamp(plugin).value();
  stamp.modified_ns -= 1;
  cache.store(plugin, stamp, kGood);
  CHECK_FALSE(cache.find(plugin));
}

TEST_CASE("what other hosts wrote meanwhile stays, up to a number", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache a(zoo.cache_file(), "a");
  VetCache b(zoo.cache_file(), "b");
  store(a, plugin, kGood);
  a.save();
  store(b, plugin, kGood);
  b.save();
  CHECK(VetCache(zoo.cache_file(), "a").find(plugin));
  CHECK(VetCache(zoo.cache_file(), "b").find(plugin));
  for (int i = 0; i < 20; ++i) {
    VetCache one(zoo.cache_file(), "host " + std::to_string(i));
    store(one, plugin, kGood);
    one.save();
  }
  CHECK(read_text(zoo.cache_file()).size() < 4000);
}

TEST_CASE("files that are gone leave the cache", "[plugin]") {
  ZooFolder zoo;
  const std::string gone = zoo.add("good_c", "gone");
  const std::string plugin = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  store(cache, gone, kGood);
  store(cache, plugin, kGood);
  std::filesystem::remove(gone);
  cache.save();
  CHECK(read_text(zoo.cache_file()).find("gone.so") == std::string::npos);
  CHECK(read_text(zoo.cache_file()).find("good_c.so") != std::string::npos);
}

TEST_CASE("a cache file that is broken is as good as none", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  std::filesystem::create_directories(std::filesystem::path(zoo.cache_file()).parent_path());
  for (const char* const text :
       {"",
        "{",
        "[]",
        "null",
        "{\"format\": 99}",
        "{\"format\": 5, \"checksum\": \"\", \"entries\": 3}",
        "{\"format\": 5, \"checksum\": \"\", \"entries\": [{\"path\": 7}]}",
        "{\"format\": 5, \"checksum\": \"\", \"entries\": [{\"path\": \"x\", \"host\": {}}]}"}) {
    CAPTURE(text);
    std::ofstream(zoo.cache_file()) << text;
    VetCache cache(zoo.cache_file(), "host");
    CHECK_FALSE(cache.find(plugin));
    store(cache, plugin, kGood);
    cache.save();
    CHECK(VetCache(zoo.cache_file(), "host").find(plugin));
  }
}

TEST_CASE("a cache with one flipped bit is discarded, and the plugins are checked again",
          "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  {
    VetCache cache(zoo.cache_file(), "host 1");
    store(cache, plugin, kGood);
    cache.save();
  }
  std::ifstream in(zoo.cache_file());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t hash = text.find("\"hash\": \"") + 9;
  for (const std::size_t position : {hash, text.find("\"id\": \"") + 7, text.find("good_c")}) {
    std::string flipped = text;
    flipped[position] = static_cast<char>(flipped[position] ^ 1);
    std::ofstream(zoo.cache_file()) << flipped;
    VetCache cache(zoo.cache_file(), "host 1");
    CHECK_FALSE(cache.find(plugin));
    store(cache, plugin, kGood);
    cache.save();
    CHECK(VetCache(zoo.cache_file(), "host 1").find(plugin));
  }
}

TEST_CASE("a cache is only for its user, and others cannot make one up", "[plugin]") {
  namespace fs = std::filesystem;
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  VetCache cache(zoo.cache_file(), "host");
  store(cache, plugin, kGood);
  cache.save();
  const fs::path file = zoo.cache_file();
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(VetCache(zoo.cache_file(), "host").find(plugin));

  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  CHECK_FALSE(VetCache(zoo.cache_file(), "host").find(plugin));
  fs::permissions(file, fs::perms::group_write, fs::perm_options::remove);
  CHECK(VetCache(zoo.cache_file(), "host").find(plugin));

  const fs::path moved = file.parent_path() / "moved.json";
  fs::rename(file, moved);
  fs::create_symlink(moved, file);
  CHECK_FALSE(VetCache(zoo.cache_file(), "host").find(plugin));
  const std::string before = read_text(moved.string());
  VetCache other(zoo.cache_file(), "another host");
  store(other, plugin, kGood);
  other.save();  // replaces the link
  CHECK_FALSE(fs::is_symlink(file));
  CHECK(read_text(moved.string()) == before);
}

TEST_CASE("a verdict has the hash of the file that was vetted", "[plugin]") {
  ZooFolder zoo;
  const PluginInfo plugin = inspect_plugin(zoo.add("good_c"));
  const PluginInfo* const plugins[] = {&plugin};
  const Verdict verdict = try_plugins(plugins, zoo_services(), std::chrono::seconds(60)).at(0);
  CHECK(verdict.hash == content_hash(plugin.file));
  VetCache cache(zoo.cache_file(), "host");
  cache.store(plugin.file, *plugin.stamp, verdict);
  CHECK(cache.find(plugin.file)->hash == verdict.hash);
}

TEST_CASE("a cache that cannot be written is no error", "[plugin]") {
  ZooFolder zoo;
  const std::string plugin = zoo.add("good_c");
  for (const std::string& file :
       {std::string("/proc/none/vetted.json"), plugin + "/vetted.json", std::string()}) {
    VetCache cache(file, "host");
    store(cache, plugin, kGood);
    CHECK_NOTHROW(cache.save());
    CHECK_FALSE(std::filesystem::exists(file));
  }
}

TEST_CASE("the cache lies where the XDG specification has it", "[plugin]") {
  const auto keep = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? std::string(value) : std::string();
  };
  const std::string home = keep("HOME");
  const std::string cache_home = keep("XDG_CACHE_HOME");
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/somebody", 1);
  CHECK(default_vet_cache_file() == "/var/cache/somebody/tenon/vetted.json");
  setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(default_vet_cache_file() == "/home/somebody/.cache/tenon/vetted.json");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  CHECK(default_vet_cache_file().empty());
  setenv("HOME", home.c_str(), 1);
  if (!cache_home.empty()) {
    setenv("XDG_CACHE_HOME", cache_home.c_str(), 1);
  }
}

TEST_CASE("a host has a build id that does not change while it runs", "[plugin]") {
  CHECK(host_build_id().size() >= 8);
  CHECK(host_build_id() == host_build_id());
}
