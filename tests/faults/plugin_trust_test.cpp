// SPDX-License-Identifier: Apache-2.0
//
// Plugin files that are not what the user expects: other files than the locked ones, files that
// other users can change, and files that nobody trusted has signed.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/signer.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

using Words = std::vector<std::string>;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// A recipe, and a folder with copies of the five plugins that it uses.
class Desk {
 public:
  Desk() {
    for (const char* const name : {"mlp", "cross_entropy", "sgd", "jsonl"}) {
      copy(plugin_dir() / (std::string(name) + ".so"));
    }
    copy(test_plugin_dir() / "windows.so");
    fs::permissions(plugins(),
                    fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                        fs::perms::others_read | fs::perms::others_exec);
  }

  fs::path path() const { return folder_.path(); }
  fs::path plugins() const { return folder_.path() / "plugins"; }
  fs::path plugin(const std::string& name) const { return plugins() / (name + ".so"); }
  fs::path lock() const { return folder_.path() / "plugins.lock"; }
  fs::path run_dir() const { return folder_.path() / "run"; }
  const ScratchFolder& folder() const { return folder_; }

  void copy(const fs::path& file) {
    fs::create_directories(plugins());
    fs::copy_file(file, plugins() / file.filename(), fs::copy_options::overwrite_existing);
    set_mode(plugins() / file.filename(), 0644);
  }
  static void set_mode(const fs::path& file, mode_t mode) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
  }
  // The dynamic linker ignores bytes at the end of a file.
  void change(const std::string& name) const {
    std::ofstream(plugin(name), std::ios::app | std::ios::binary) << "x";
  }
  void variable(const std::string& name, const std::string& value) { variables_[name] = value; }

  SubprocessResult host(const Words& more, const Words& prefix = {}) const {
    Words words = prefix;
    words.insert(words.end(),
                 {host_program().string(), "--recipe", "recipe.json", "--plugin-dir", "plugins"});
    words.insert(words.end(), more.begin(), more.end());
    SubprocessOptions options;
    options.working_dir = path().string();
    options.environment = {{"XDG_CACHE_HOME", (path() / "cache").string()}};
    options.environment.insert(variables_.begin(), variables_.end());
    return run_subprocess(words, options);
  }
  // A run from scratch.
  SubprocessResult run(Words more = {}) const {
    fs::remove_all(run_dir());
    more.insert(more.end(), {"--run-dir", "run"});
    return host(more);
  }

 private:
  ScratchFolder folder_;
  fs::path recipe_ = folder_.write("recipe.json", small_recipe());
  std::map<std::string, std::string> variables_;
};

nlohmann::json json_of(const fs::path& file) {
  return nlohmann::json::parse(file_text(file));
}

}  // namespace

TEST_CASE("a run with the locked plugins is silent, and records what it loaded", "[faults]") {
  const Desk desk;
  const SubprocessResult locked = desk.host({"--lock"});
  INFO(locked.err);
  REQUIRE(locked.exit_code == 0);
  CHECK(locked.out == "wrote 5 plugins to plugins.lock\n");
  const SubprocessResult run = desk.run({"--set", "plugins.lock=require"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());

  const nlohmann::json lock = json_of(desk.lock());
  std::map<std::string, nlohmann::json> recorded;
  const nlohmann::json summary = json_of(desk.run_dir() / "summary.json");
  for (const nlohmann::json& plugin : summary.at("plugins")) {
    recorded[plugin.at("id")] = plugin;
  }
  const std::string log = file_text(desk.run_dir() / "log.txt");
  CHECK(recorded.size() == 5);
  for (const nlohmann::json& plugin : lock.at("plugins")) {
    const std::string id = plugin.at("id");
    const std::string hash = "sha256:" + plugin.at("sha256").get<std::string>();
    const std::string file = "plugins/" + plugin.at("file").get<std::string>();
    INFO(id);
    REQUIRE(recorded.contains(id));
    CHECK(recorded[id].at("hash") == hash);
    CHECK(recorded[id].at("file") == file);
    CHECK(recorded[id].at("version") == plugin.at("version"));
    CHECK(plugin.at("recipes") == nlohmann::json({"recipe.json"}));
    CHECK_THAT(log,
               contains_text("plugin " + id + " " + plugin.at("version").get<std::string>() + ", " +
                             file + ", " + hash));
  }
}

TEST_CASE("a run with other plugins than the locked ones warns, or is refused", "[faults]") {
  const Desk desk;
  REQUIRE(desk.host({"--lock"}).exit_code == 0);
  desk.change("sgd");
  desk.change("mlp");
  const SubprocessResult warned = desk.run();
  INFO(warned.err);
  CHECK(warned.exit_code == 0);
  CHECK(count_of(warned.err, "\n") == 1);
  CHECK_THAT(warned.err, contains_text("warning: the plugins differ from plugins.lock: "));
  CHECK_THAT(warned.err, contains_text("plugins/sgd.so has other bytes (SHA-256 "));
  CHECK_THAT(warned.err, contains_text("plugins/mlp.so has other bytes (SHA-256 "));
  CHECK_THAT(warned.err, contains_text("--recipe recipe.json --lock"));
  const SubprocessResult ranks = desk.run({"--launch", "2"});
  INFO(ranks.err);
  CHECK(ranks.exit_code == 0);
  CHECK(count_of(ranks.err, "the plugins differ from plugins.lock") == 1);
  CHECK(desk.run({"--set", "plugins.lock=null"}).err.empty());

  for (const Words& words : {Words{}, Words{"--launch", "2"}, Words{"--validate"}}) {
    Words more = {"--set", "plugins.lock=require"};
    more.insert(more.end(), words.begin(), words.end());
    const SubprocessResult refused =
        words == Words{"--validate"} ? desk.host(more) : desk.run(more);
    INFO(refused.err);
    CHECK(refused.exit_code == 4);
    CHECK(count_of(refused.err, "[plugin.lock_differs] the plugins differ from") == 1);
    CHECK_FALSE(fs::exists(desk.run_dir()));
  }

  REQUIRE(desk.host({"--lock", "--set", "plugins.lock=require"}).exit_code == 0);
  const SubprocessResult accepted = desk.run({"--set", "plugins.lock=require"});
  CHECK(accepted.exit_code == 0);
  CHECK(accepted.err.empty());
}

TEST_CASE("a locked plugin that is missing is named beside the error that it causes", "[faults]") {
  const Desk desk;
  REQUIRE(desk.host({"--lock"}).exit_code == 0);
  fs::remove(desk.plugin("sgd"));
  const SubprocessResult run = desk.run();
  INFO(run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err, contains_text("[recipe.unknown_type]"));
  CHECK_THAT(run.err, contains_text("warning: plugins.lock has org.tenon.sgd "));
  CHECK_THAT(run.err, contains_text("(sgd.so), which is not in plugins (--plugin-dir)"));
}

TEST_CASE("a lock that is missing, corrupt, newer or a link is an error before the run",
          "[faults]") {
  const Desk desk;
  const auto refused = [&](const Words& words, const std::string& id, const std::string& text) {
    const SubprocessResult run = desk.run(words);
    INFO(run.err);
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, contains_text("[" + id + "]"));
    CHECK_THAT(run.err, contains_text(text));
    CHECK_FALSE(fs::exists(desk.run_dir()));
  };
  refused({"--set", "plugins.lock=require"}, "plugin.lock_differs", "plugins.lock does not exist");
  REQUIRE(desk.host({"--lock"}).exit_code == 0);
  const std::string good = file_text(desk.lock());
  desk.folder().write("plugins.lock", good.substr(0, good.size() / 2));
  refused({}, "plugin.bad_lock", "plugins.lock is corrupt");
  CHECK(desk.run({"--set", "plugins.lock=null"}).exit_code == 0);
  CHECK(desk.host({"--lock"}).exit_code == 4);  // nothing is overwritten that could be of use
  desk.folder().write("plugins.lock", R"({"format": 2})");
  refused({}, "plugin.bad_lock", "has format 2, this host reads format 1");
  fs::rename(desk.lock(), desk.path() / "elsewhere");
  fs::create_symlink("elsewhere", desk.lock());
  refused({}, "plugin.bad_lock", "is a symbolic link");
  fs::remove(desk.lock());

  // A lock for another recipe of the folder.
  std::string other = good;
  for (size_t at = 0; (at = other.find("\"recipe.json\"", at)) != std::string::npos;) {
    other.replace(at, 13, "\"other.json\"");
  }
  desk.folder().write("plugins.lock", other);
  const SubprocessResult unlocked = desk.run();
  INFO(unlocked.err);
  CHECK(unlocked.exit_code == 0);
  CHECK_THAT(unlocked.err, contains_text("warning: plugins.lock has no entry for recipe.json"));
  refused({"--set", "plugins.lock=require"}, "plugin.lock_differs", "has no entry for recipe.json");
  REQUIRE(desk.host({"--lock"}).exit_code == 0);
  CHECK(desk.run().err.empty());
  CHECK(json_of(desk.lock()).at("plugins").at(0).at("recipes") ==
        nlohmann::json({"other.json", "recipe.json"}));
}

TEST_CASE("a plugin that all users can change is refused unless that is allowed", "[faults]") {
  Desk desk;
  desk.variable("TENON_ALLOW_WRITABLE_PLUGINS", "");
  Desk::set_mode(desk.plugin("sgd"), 0666);
  const SubprocessResult refused = desk.run();
  INFO(refused.err);
  CHECK(refused.exit_code == 4);
  CHECK(count_of(refused.err, "[plugin.writable]") == 1);
  CHECK_THAT(refused.err, contains_text("plugins/sgd.so is writable by all users (mode 0666)"));
  CHECK_THAT(refused.err, contains_text("run chmod o-w plugins/sgd.so"));
  CHECK_FALSE(fs::exists(desk.run_dir()));
  CHECK(desk.run({"--allow-writable-plugins"}).exit_code == 0);

  Desk::set_mode(desk.plugin("sgd"), 0644);
  Desk::set_mode(desk.plugins(), 0777);
  const SubprocessResult folder = desk.run();
  INFO(folder.err);
  CHECK(folder.exit_code == 4);
  CHECK_THAT(folder.err, contains_text("plugins is writable by all users (mode 0777)"));
  desk.variable("TENON_ALLOW_WRITABLE_PLUGINS", "1");
  CHECK(desk.run().exit_code == 0);
  desk.variable("TENON_ALLOW_WRITABLE_PLUGINS", "yes");
  CHECK(desk.run().exit_code == 2);
  desk.variable("TENON_ALLOW_WRITABLE_PLUGINS", "0");
  CHECK(desk.run().exit_code == 4);
  Desk::set_mode(desk.plugins(), 0755);
  CHECK(desk.run().exit_code == 0);

  // The folder around the plugins, without and with the sticky bit.
  Desk::set_mode(desk.path(), 0777);
  CHECK_THAT(desk.run().err, contains_text("is writable by all users (mode 0777)"));
  Desk::set_mode(desk.path(), 01777);
  CHECK(desk.run().exit_code == 0);
}

TEST_CASE("plugins that a group or another user can change are mentioned once",
          "[faults][.release]") {
  const Desk desk;
  CHECK(desk.run().err.empty());
  Desk::set_mode(desk.plugin("sgd"), 0664);
  const SubprocessResult first = desk.run();
  INFO(first.err);
  CHECK(first.exit_code == 0);
  CHECK(count_of(first.err, "\n") == 1);
  CHECK_THAT(first.err, contains_text("warning: plugins/sgd.so is writable by its group "));
  CHECK(desk.run().err.empty());
  if (::geteuid() != 0) {
    TENON_SKIP("only root can give a file away");
  }
  Desk::set_mode(desk.plugin("sgd"), 0644);
  REQUIRE(::chown(desk.plugin("sgd").c_str(), 12345, 12345) == 0);
  CHECK_THAT(desk.run().err, contains_text("plugins/sgd.so belongs to user 12345"));
  CHECK(desk.run().err.empty());

  // The files of root are no other user's, and neither are a user's own.
  fs::permissions(desk.path(), fs::perms::all);
  REQUIRE(::chown(desk.path().c_str(), 12345, 12345) == 0);
  Desk::set_mode(desk.path(), 0755);
  fs::remove_all(desk.path() / "cache");
  const SubprocessResult own = desk.host(
      {"--validate"}, {"setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"});
  INFO(own.err);
  if (own.exit_code == 126 || own.exit_code == 127) {
    TENON_SKIP("setpriv is not installed, or the program cannot be run by another user");
  }
  CHECK(own.exit_code == 0);
  CHECK(own.err.empty());
  const SubprocessResult other = desk.host(
      {"--validate"}, {"setpriv", "--reuid=23456", "--regid=23456", "--clear-groups", "--"});
  INFO(other.err);
  CHECK(other.exit_code == 0);
  CHECK_THAT(other.err, contains_text("plugins/sgd.so belongs to user 12345"));
}

TEST_CASE("with a trust file, a run loads only plugins that a key has signed", "[faults]") {
  Desk desk;
  desk.variable("TENON_ALLOW_WRITABLE_PLUGINS", "");
  const Signer team;
  const auto sign = [&](const std::string& name, const Signer& signer) {
    desk.folder().write("plugins/" + name + ".so.sig", signer.sign(file_text(desk.plugin(name))));
  };
  desk.folder().write("keys/trusted-keys", "team " + team.public_key() + "\n");
  const Words trust = {"--trust", "keys/trusted-keys"};
  const auto refused = [&](const std::string& text) {
    const SubprocessResult run = desk.run(trust);
    INFO(run.err);
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, contains_text("[plugin.untrusted]"));
    CHECK_THAT(run.err, contains_text(text));
    CHECK_FALSE(fs::exists(desk.run_dir()));
  };
  refused("plugins/mlp.so.sig does not exist");
  for (const char* const name : {"mlp", "cross_entropy", "sgd", "jsonl", "windows"}) {
    sign(name, team);
  }
  CHECK(desk.run(trust).exit_code == 0);
  CHECK(desk.run({"--launch", "2", "--trust", "keys/trusted-keys"}).exit_code == 0);
  sign("sgd", Signer());
  refused("plugins/sgd.so.sig is not a signature of this file by a key of keys/trusted-keys");
  sign("sgd", team);
  desk.change("sgd");
  refused("plugins/sgd.so.sig is not a signature of this file");
  sign("sgd", team);

  // The recipe's key, whose path starts at the recipe; the option overrides it.
  CHECK(desk.run({"--set", "plugins.trust=keys/trusted-keys"}).exit_code == 0);
  desk.folder().write("keys/others", "other " + Signer().public_key() + "\n");
  CHECK(desk.run({"--set", "plugins.trust=keys/others"}).exit_code == 4);
  CHECK(
      desk.run({"--set", "plugins.trust=keys/others", "--trust", "keys/trusted-keys"}).exit_code ==
      0);

  // A plugin without a signature that the run does not need costs a warning, and does not run.
  fs::copy_file(build_dir() / "tests/zoo/crashes_in_entry.so", desk.plugin("crashes"));
  Desk::set_mode(desk.plugin("crashes"), 0644);
  const SubprocessResult beside = desk.run(trust);
  INFO(beside.err);
  CHECK(beside.exit_code == 0);
  CHECK(count_of(beside.err, "\n") == 1);
  CHECK_THAT(beside.err, contains_text("warning: [plugin.untrusted] plugins/crashes.so"));
  const SubprocessResult list = run_subprocess({host_program().string(),
                                                "--list-plugins",
                                                "--plugin-dir",
                                                desk.plugins().string(),
                                                "--trust",
                                                (desk.path() / "keys/trusted-keys").string()});
  CHECK_THAT(list.out, contains_text("refused: [plugin.untrusted]"));

  for (const auto& [file, text] : std::map<std::string, std::string>{
           {"keys/missing", "cannot be read"}, {"recipe.json", "has no name and key in line 1"}}) {
    const SubprocessResult bad = desk.run({"--trust", file});
    INFO(bad.err);
    CHECK(bad.exit_code == 4);
    CHECK_THAT(bad.err, contains_text("[plugin.bad_trust] the trust file " + file + " " + text));
  }
  Desk::set_mode(desk.path() / "keys/trusted-keys", 0666);
  CHECK_THAT(desk.run(trust).err,
             contains_text("the trust file keys/trusted-keys can be changed by anyone"));
}

TEST_CASE("the commands of the page about signatures sign a plugin that then loads",
          "[faults][.release]") {
  if (run_subprocess({"openssl", "version"}).exit_code != 0) {
    TENON_SKIP("openssl is not installed");
  }
  const std::string page = file_text(source_dir() / "docs/security.md");
  const std::string fence = "```sh\n";
  std::string commands = "set -e\nhost() { \"$TENON_HOST\" \"$@\" --validate; }\n";
  int num_blocks = 0;
  for (size_t at = page.find(fence, page.find("### Signatures")); at != std::string::npos;
       at = page.find(fence, at)) {
    const size_t end = page.find("```\n", at += fence.size());
    commands += page.substr(at, end - at);
    at = end + 4;
    ++num_blocks;
  }
  CHECK(num_blocks == 4);
  const ScratchFolder folder;
  folder.write("recipe.json", small_recipe(R"({"loss": {"type": "cross_entropy"}})"));
  fs::create_directories(folder.path() / "plugins");
  fs::copy_file(plugin_dir() / "cross_entropy.so", folder.path() / "plugins/focal.so");
  Desk::set_mode(folder.path() / "plugins/focal.so", 0644);
  Desk::set_mode(folder.path() / "plugins", 0755);
  const SubprocessOptions options{
      .working_dir = folder.path().string(),
      .environment = {{"TENON_HOST", host_program().string()},
                      {"XDG_CACHE_HOME", (folder.path() / "cache").string()}}};
  // The other plugins are missing, so the recipe is refused, but for no reason of signatures.
  const SubprocessResult run = run_subprocess({"bash", "-c", commands}, options);
  INFO(run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err, contains_text("[recipe.unknown_type]"));
  CHECK_THAT(run.err, !contains_text("cross_entropy"));
  CHECK_THAT(run.err, !contains_text("[plugin.untrusted]"));
  fs::remove(folder.path() / "plugins/focal.so.sig");
  const SubprocessResult without = run_subprocess({host_program().string(),
                                                   "--list-plugins",
                                                   "--plugin-dir",
                                                   "plugins",
                                                   "--trust",
                                                   "trusted-keys"},
                                                  options);
  CHECK_THAT(without.out, contains_text("refused: [plugin.untrusted]"));
}

}  // namespace tenon
