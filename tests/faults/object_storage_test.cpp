// SPDX-License-Identifier: Apache-2.0
//
// Runs that keep their checkpoints in object storage: against a server of S3, which is another
// program, on loopback. They are stopped, killed in a save, and gone on with; objects are damaged,
// and the server is lost.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/s3_server.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// Runs of one recipe, in folders whose names are those of their checkpoints in the bucket.
class StoredRuns {
 public:
  explicit StoredRuns(const std::string& more = "{}") : server_(folder_.path(), "runs") {
    REQUIRE(!server_.port().empty());
    nlohmann::json recipe = nlohmann::json::parse(busy_recipe(R"({
      "parallel": {"timeout_seconds": 20},
      "checkpoint": {"every_steps": 2, "keep_last": 2}})"));
    plain_ = folder_.write("plain.json", recipe.dump());
    recipe["checkpoint"]["storage"] = {{"type", "s3"},
                                       {"options",
                                        {{"uri", "s3://runs/kept" + server_.uri_options()},
                                         {"attempts", 2},
                                         {"connect_timeout_seconds", 2}}}};
    recipe_ = folder_.write("recipe.json", patched(recipe.dump(), more));
  }

  struct End {
    int code = 0;
    std::string out;
    std::string err;
  };
  End run(const std::string& name, const Words& more = {}) const {
    const auto run = start(name, more);
    const int code = run->wait();
    return {code, run->out(), run->err()};
  }
  std::unique_ptr<StartedRun> start(const std::string& name, const Words& more = {}) const {
    return std::make_unique<StartedRun>(recipe_, path(name), more, S3Server::environment());
  }
  // The same with its checkpoints in local files.
  void run_whole(const Words& more = {}) const {
    CHECK(StartedRun(plain_, path("whole"), more).wait() == 0);
  }

  void check_is_whole(const std::string& name) const {
    const nlohmann::json summary = summary_of(path(name));
    CHECK(summary["parameters_hash"] == summary_of(path("whole"))["parameters_hash"]);
    CHECK(records_of(path(name)) == records_of(path("whole")));
  }

  // The names of a run's checkpoints that are finished, and of all that something is left of.
  std::vector<std::string> finished(const std::string& name) { return having(name, "/COMMITTED"); }
  std::vector<std::string> begun(const std::string& name) { return having(name, ""); }

  // Flips a bit of an object.
  void spoil(const std::string& name, const std::string& checkpoint, const std::string& file) {
    const std::string key = "kept/" + name + "/checkpoints/" + checkpoint + "/" + file;
    const fs::path copy = folder_.path() / "object";
    server_.get(key, copy);
    std::string text = file_text(copy);
    REQUIRE(text.size() > 100);
    text[text.size() - 3] = static_cast<char>(text[text.size() - 3] ^ 4);
    std::ofstream(copy, std::ios::trunc | std::ios::binary) << text;
    server_.put(key, copy);
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  const fs::path& recipe() const { return recipe_; }
  S3Server& server() { return server_; }

 private:
  std::vector<std::string> having(const std::string& name, const std::string& file) {
    const std::string prefix = "kept/" + name + "/checkpoints/";
    std::set<std::string> checkpoints;
    for (const std::string& key : server_.keys(prefix)) {
      if (key.size() > prefix.size() && key.ends_with(file)) {
        checkpoints.insert(key.substr(prefix.size(), key.find('/', prefix.size()) - prefix.size()));
      }
    }
    return {checkpoints.begin(), checkpoints.end()};
  }

  ScratchFolder folder_;
  S3Server server_;
  fs::path recipe_;
  fs::path plain_;
};

}  // namespace

#define TENON_NEED_S3()                                                      \
  if (!S3Server::is_there()) {                                               \
    TENON_SKIP("there is no server of S3; `./dev deps --peers` brings one"); \
  }                                                                          \
  static_cast<void>(0)

TEST_CASE("a run with checkpoints in object storage is stopped, killed and resumed",
          "[faults][ranks][.release]") {
  TENON_NEED_S3();
  StoredRuns runs;
  const Words ranks = {"--launch", "2"};
  const auto with_ranks = [&](Words more) {
    more.insert(more.end(), ranks.begin(), ranks.end());
    return more;
  };
  runs.run_whole(ranks);
  const auto stopped = runs.run("r", with_ranks({"--set", "train.exit_at_step=5"}));
  INFO(stopped.out << stopped.err);
  REQUIRE(stopped.code == 75);
  CHECK_THAT(stopped.out, contains_text("saved s3://runs/kept/r/checkpoints/step-00000005"));
  // The two that are kept, without a rest of the one that was removed.
  REQUIRE(runs.finished("r").size() == 2);
  CHECK(runs.finished("r").front().starts_with("step-00000004"));
  CHECK(runs.begun("r") == runs.finished("r"));
  CHECK_FALSE(fs::exists(runs.path("r") / "checkpoints"));

  // One rank dies while the state of step 8 is sent.
  const auto killed = runs.run("r", with_ranks({"--set", R"(hooks=[{"type": "fail_at", "options":
      {"how": "kill", "event": "after_checkpoint", "step": 8, "rank": 1}}])"}));
  INFO(killed.out << killed.err);
  CHECK(killed.code == 5);
  CHECK_THAT(killed.out, contains_text("resumed from s3://runs/kept/r/checkpoints/step-00000005"));
  REQUIRE(!runs.finished("r").empty());
  const std::string newest = runs.finished("r").back();
  CHECK(newest.starts_with("step-00000006"));

  const auto end = runs.run("r", ranks);
  INFO(end.out << end.err);
  REQUIRE(end.code == 0);
  CHECK_THAT(end.out, contains_text("resumed from s3://runs/kept/r/checkpoints/" + newest));
  runs.check_is_whole("r");

  // Where the storage has none of its checkpoints, the run does not start over.
  const auto elsewhere = runs.run("r",
                                  with_ranks({"--set",
                                              "checkpoint.storage.options.uri=s3://runs/elsewhere" +
                                                  runs.server().uri_options()}));
  INFO(elsewhere.err);
  CHECK(elsewhere.code == 2);
  CHECK_THAT(elsewhere.err,
             contains_text("[resume.checkpoints_gone]") &&
                 contains_text("has saved s3://runs/kept/r/checkpoints/step-00000014"));
  runs.check_is_whole("r");
  CHECK(runs.finished("r").size() == 2);
  CHECK(runs.begun("r") == runs.finished("r"));  // what the dead one began was cleared away
}

TEST_CASE("a corrupt object is named, and the previous checkpoint is used", "[faults]") {
  TENON_NEED_S3();
  StoredRuns runs;
  runs.run_whole();
  REQUIRE(runs.run("r", {"--set", "train.exit_at_step=5"}).code == 75);
  const auto checkpoints = runs.finished("r");
  REQUIRE(checkpoints.size() == 2);
  const auto exported = [&](const std::string& file, const Words& from) {
    Words words = {
        host_words(runs.recipe()).front(), "--export", "torch", runs.path(file).string()};
    const Words all = host_words(runs.recipe());
    words.insert(words.end(), all.begin() + 3, all.end());  // the plugins
    words.insert(words.end(), from.begin(), from.end());
    return run_subprocess(words, {.environment = S3Server::environment()});
  };
  const std::string run_dir = runs.path("r").string();
  const auto sound = exported("sound.pt", {"--from", run_dir});
  INFO(sound.out << sound.err);
  CHECK(sound.exit_code == 0);
  CHECK_THAT(sound.out, contains_text("from s3://runs/kept/r/checkpoints/" + checkpoints.back()));

  runs.spoil("r", checkpoints.back(), "rank-0-of-1.safetensors");
  const std::string told = "s3://runs/kept/r/checkpoints/" + checkpoints.back() +
                           ": rank-0-of-1.safetensors is corrupt: entry '";
  const auto older = exported("older.pt", {"--run-dir", run_dir});
  INFO(older.out << older.err);
  CHECK(older.exit_code == 0);
  CHECK_THAT(older.err, contains_text(told) && contains_text("trying the checkpoint before it"));
  CHECK_THAT(older.out, contains_text("from s3://runs/kept/r/checkpoints/" + checkpoints.front()));
  const auto named =
      exported("named.pt", {"--from", run_dir + "/checkpoints/" + checkpoints.front()});
  INFO(named.out << named.err);
  CHECK(named.exit_code == 0);
  CHECK(file_text(runs.path("named.pt")) == file_text(runs.path("older.pt")));
  CHECK(file_text(runs.path("named.pt")) != file_text(runs.path("sound.pt")));
  const auto spoilt =
      exported("spoilt.pt", {"--from", run_dir + "/checkpoints/" + checkpoints.back()});
  CHECK(spoilt.exit_code == 5);
  CHECK_THAT(spoilt.err, contains_text("[checkpoint.damaged]") && contains_text(told));
  CHECK_FALSE(fs::exists(runs.path("spoilt.pt")));

  // A run of its own that begins with what that one has.
  const auto other = runs.run("other", {"--resume", run_dir});
  INFO(other.out << other.err);
  CHECK(other.code == 0);
  CHECK_THAT(other.err, contains_text(told));
  CHECK(summary_of(runs.path("other"))["resumed"]["step"] == 4);
  CHECK(runs.finished("other").size() == 2);
  const auto end = runs.run("r");
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  CHECK_THAT(end.err, contains_text(told) && contains_text("trying the checkpoint before it"));
  CHECK(summary_of(runs.path("r"))["resumed"]["step"] == 4);
  runs.check_is_whole("r");
}

TEST_CASE("losing a server during a run costs only the checkpoints on it", "[faults][.release]") {
  TENON_NEED_S3();
  StoredRuns runs(R"({"checkpoint": {"retries": 0}})");
  runs.run_whole();
  const std::string mark = runs.path("mark").string();
  const auto run = runs.start("r",
                              {"--set",
                               R"(hooks=[{"type": "fail_at", "options":
      {"how": "stop", "event": "after_step", "step": 7, "mark": ")" +
                                   mark + R"("}}])"});
  wait_until([&] { return run->has_ended() || fs::exists(mark); });
  runs.server().kill();
  wait_until([&] {
    run->signal(SIGCONT);  // it may not stand still yet
    return run->has_ended();
  });
  const int code = run->wait();
  INFO(run->out() << run->err());
  CHECK(code == 5);
  CHECK_THAT(run->err(), contains_text("[checkpoint.failed] the run ended at step 14 ("));
  CHECK_THAT(run->err(), contains_text("s3://runs/kept/r/checkpoints/step-00000014"));
  CHECK_THAT(run->err(), contains_text("could not be saved"));
  const nlohmann::json count = summary_of(runs.path("r"))["checkpoints"];
  CHECK(count["committed"] >= 2);
  CHECK(count["failed"] >= 4);
  CHECK(count["committed"].get<int>() + count["failed"].get<int>() == 7);
  runs.check_is_whole("r");
}

}  // namespace tenon
