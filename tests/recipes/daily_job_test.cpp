// SPDX-License-Identifier: Apache-2.0
//
// A job that is started once a day by the same command and trains on the days that are new.
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// A folder of clicks by day and hour, a recipe, and the run of the job.
class Job {
 public:
  explicit Job(json windows = json::object(), const json& patch = json::object()) {
    std::filesystem::create_directories(log());
    windows["by"] = "time";
    windows["pattern"] = "dt=%Y-%m-%d";
    json recipe = {
        {"name", "daily"},
        {"threads", {{"compute", 1}}},
        {"model",
         {{"type", "mlp"},
          {"options", {{"in_features", 2}, {"hidden", {4}}, {"out_features", 1}}}}},
        {"data",
         {{"batch_size", 2},
          {"train",
           {{"type", "columnar"},
            {"options",
             {{"paths", {log().string()}},
              {"columns",
               {{{"name", "x"}, {"columns", {"a", "b"}}, {"type", "f32"}},
                {{"name", "targets"}, {"column", "y"}, {"type", "f32"}}}},
              {"windows", windows},
              {"shards", 2}}}}}}},
        {"loss", {{"type", "mse"}}},
        {"optimizer", {{"type", "adam"}, {"options", {{"lr", 0.01}}}}},
        {"train",
         {{"windows", "new"}, {"global_batch_size", 4}, {"precision", "fp64"}, {"log_every", 1}}},
        {"checkpoint", {{"every_windows", 1}}}};
    recipe.merge_patch(patch);
    recipe_ = folder_.write("recipe.json", recipe.dump());
  }

  std::filesystem::path log() const { return folder_.path() / "log"; }
  std::filesystem::path hour(int day, int hour) const {
    char name[40];
    std::snprintf(name, sizeof(name), "dt=2026-03-%02d/hr=%02d", day, hour);
    return log() / name;
  }

  // Hour 0 and 12 of a day, whose numbers of rows differ from day to day.
  void add_day(int day, bool has_new_column = false) const {
    for (const int h : {0, 12}) {
      add_hour(day, h, 3 + (day * 5 + h) % 7, has_new_column);
    }
  }
  void add_hour(int day, int h, int num_rows, bool has_new_column = false) const {
    std::filesystem::create_directories(hour(day, h));
    std::ofstream file(hour(day, h) / "part-0.csv");
    file << (has_new_column ? "a,device,b,y\n" : "a,b,y\n");
    for (int row = 0; row < num_rows; ++row) {
      const double a = std::sin(day * 31 + h + row);
      const double b = std::cos(day * 17 + h * 3 + row);
      file << a << (has_new_column ? ",7," : ",") << b << "," << a - 2 * b << "\n";
    }
  }
  void add_file(int day, int h, const std::string& name, const std::string& text) const {
    std::ofstream(hour(day, h) / name) << text;
  }

  SubprocessResult run(int num_ranks = 1, const std::vector<std::string>& more = {}) const {
    return run_host(recipe_, folder_.path() / "run", num_ranks, more);
  }
  // Runs the job, which ends with 0, and returns its last line.
  std::string succeed(int num_ranks = 1, const std::vector<std::string>& more = {}) const {
    const SubprocessResult result = run(num_ranks, more);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    return summary()["reason"];
  }
  json summary() const { return json::parse(std::ifstream(folder_.path() / "run/summary.json")); }
  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path() / "run" / "checkpoints")) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  // The words that add an evaluation on all of the log, at the end of the run.
  std::vector<std::string> evaluates() const {
    const json set = {{"type", "columnar"},
                      {"options",
                       {{"paths", {log().string()}},
                        {"columns",
                         {{{"name", "x"}, {"columns", {"a", "b"}}, {"type", "f32"}},
                          {{"name", "targets"}, {"column", "y"}, {"type", "f32"}}}}}}};
    return {"--set", "data.eval=" + set.dump()};
  }
  // The loss of each step.
  std::map<int64_t, double> losses() const {
    std::map<int64_t, double> losses;
    std::ifstream file(folder_.path() / "run/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json record = json::parse(line);
      if (record.contains("loss")) {
        losses[record["step"]] = record["loss"];
      }
    }
    return losses;
  }

 private:
  ScratchFolder folder_;
  std::filesystem::path recipe_;
};

const json kSafe = {{"bad_files", "skip"}, {"late", "wait"}};

}  // namespace

TEST_CASE("a daily job trains on each day once, whatever happens to the days", "[recipes]") {
  const Job job(kSafe);
  CHECK(job.run().exit_code == 4);  // no file to determine the columns
  job.add_day(1);
  CHECK(job.succeed() == "trained on all windows up to 2026-03-01");
  CHECK(job.succeed() == "nothing new; trained on all windows up to 2026-03-01");
  job.add_day(2);
  CHECK(job.succeed() == "trained on all windows up to 2026-03-02");
  // Day 3 is late: day 4 waits for it.
  job.add_day(4);
  CHECK(job.succeed() == "nothing new; trained on all windows up to 2026-03-02");
  job.add_day(3);
  CHECK(job.succeed() == "trained on all windows up to 2026-03-04");
  // Day 5 has another column. The job is killed in it, and a file arrives for it. An hour of day 2,
  // which was trained on, is replaced.
  job.add_day(5, true);
  CHECK(job.run(1, {"--set", "train.exit_after_steps=1"}).exit_code == 75);
  job.add_file(5, 0, "part-1.csv", "a,b,y\n9,9,9\n");
  std::filesystem::remove(job.hour(2, 0) / "part-0.csv");
  job.add_file(2, 0, "compacted.csv", "a,b,y\n9,9,9\n");
  const json kill = {{{"type", "fail_at"},
                      {"options",
                       {{"event", "after_step"},
                        {"step", job.summary()["steps"].get<int>() + 1},
                        {"how", "kill"}}}}};
  CHECK(job.run(1, {"--set", "hooks=" + kill.dump()}).exit_code != 0);
  CHECK(job.succeed() == "trained on all windows up to 2026-03-05");
  // Day 6 has a corrupt file.
  job.add_day(6);
  job.add_file(6, 12, "part-1.csv", "a,b,y\n1,2,3\n4,\"5\n");
  job.add_day(7);
  CHECK(job.succeed() == "trained on all windows up to 2026-03-07");
  const auto left_out = job.summary()["data_left_out"].get<std::vector<std::string>>();
  REQUIRE(left_out.size() == 3);
  CHECK_THAT(left_out[0],
             contains_text("dt=2026-03-02/hr=00/compacted.csv is skipped: it arrived"));
  CHECK_THAT(left_out[1], contains_text("dt=2026-03-05/hr=00/part-1.csv is skipped: it arrived"));
  CHECK_THAT(left_out[2], contains_text("dt=2026-03-06/hr=12/part-1.csv is skipped, in window"));

  // A run on the repaired days, all at once.
  const Job whole(kSafe);
  for (int day = 1; day <= 7; ++day) {
    whole.add_day(day);
  }
  whole.succeed();
  CHECK(job.summary()["parameters_hash"] == whole.summary()["parameters_hash"]);
  CHECK(job.summary()["samples"] == whole.summary()["samples"]);
  CHECK(job.summary()["windows"] == 7);
  CHECK(job.losses() == whole.losses());

  // Two ranks from day 8 on.
  for (int day = 8; day <= 10; ++day) {
    job.add_day(day);
    whole.add_day(day);
    job.succeed(2);
  }
  CHECK(job.succeed(2) == "nothing new; trained on all windows up to 2026-03-10");
  CHECK(job.summary()["data_left_out"].size() == 3);  // the corrupt file is known, and not late
  whole.succeed();
  CHECK(job.summary()["samples"] == whole.summary()["samples"]);
  CHECK(job.summary()["dropped_samples"] == 0);
  const auto losses = job.losses();
  const auto expected = whole.losses();
  REQUIRE(losses.size() == expected.size());
  for (const auto& [at, loss] : expected) {
    CHECK(losses.at(at) == Approx(loss).epsilon(1e-10));
  }
}

TEST_CASE("a day whose columns differ ends the job, and is not skipped", "[recipes]") {
  const Job job(kSafe);
  job.add_day(1);
  job.succeed();
  const size_t num_steps = job.losses().size();
  const auto fails_with = [&](const std::string& text, const std::string& why) {
    std::filesystem::create_directories(job.hour(2, 0));
    job.add_file(2, 0, "part-0.csv", text);
    job.add_day(3);
    const SubprocessResult result = job.run();
    CHECK(result.exit_code != 0);
    CHECK_THAT(result.err, contains_text("dt=2026-03-02/hr=00/part-0.csv"));
    CHECK_THAT(result.err, contains_text(why));
    CHECK(job.losses().size() == num_steps);
  };
  fails_with("a,y\n1,2\n", "no column \"b\"");
  fails_with("a,b,y\n1,,2\n", "null");
  fails_with("a,b,y\n1,two,2\n", "two");
  CHECK(job.succeed(1, {"--set", R"(data.skip_windows=["2026-03-02"])"}) ==
        "trained on all windows up to 2026-03-03");
}

TEST_CASE("a day whose files are all corrupt is an empty window", "[recipes]") {
  const Job job(kSafe);
  job.add_day(1);
  std::filesystem::create_directories(job.hour(2, 0));
  job.add_file(2, 0, "part-0.csv", "a,b,y\n4,\"5\n");
  job.add_day(3);
  const SubprocessResult failed = job.run();
  CHECK(failed.exit_code != 0);
  CHECK_THAT(failed.err, contains_text("window 2026-03-02: no rows left without the files that"));
  CHECK(job.succeed(1, {"--set", "data.train.options.empty_windows=skip"}) ==
        "trained on all windows up to 2026-03-03");
  CHECK_THAT(job.summary()["data_left_out"].dump(),
             contains_text("dt=2026-03-02/hr=00/part-0.csv is skipped, in window 2026-03-02"));
}

TEST_CASE("a window that changes while the job is stopped in it has a way past", "[recipes]") {
  const Job job;
  job.add_day(1);
  job.add_day(2);
  CHECK(job.run(1, {"--set", "train.exit_after_steps=1"}).exit_code == 75);
  std::filesystem::rename(job.hour(1, 0) / "part-0.csv", job.hour(1, 0) / "compacted.csv");
  const SubprocessResult failed = job.run();
  CHECK(failed.exit_code == 4);
  CHECK_THAT(failed.err, contains_text("window 2026-03-01, in which the run stopped, has lost"));
  CHECK_THAT(failed.err, contains_text("`windows.bad_files` to \"skip\""));
  CHECK(job.succeed(1, {"--set", "data.train.options.windows.bad_files=skip"}) ==
        "trained on all windows up to 2026-03-02");
  CHECK_THAT(job.summary()["data_left_out"].dump(),
             contains_text("the rest of window 2026-03-01 is skipped"));
}

TEST_CASE("a day that arrives after a later day is skipped, wherever the run stopped",
          "[recipes]") {
  for (const bool is_inside : {false, true}) {
    const Job job;
    for (const int day : {1, 2, 4}) {
      job.add_day(day);
    }
    if (is_inside) {
      const int first = job.run(1, {"--set", "train.exit_after_steps=9"}).exit_code;
      CHECK(first == 75);
    } else {
      job.succeed();
    }
    job.add_day(3);
    job.add_day(5);
    CHECK(job.succeed() == "trained on all windows up to 2026-03-05");
    CHECK(job.summary()["windows"] == 4);
    CHECK(job.summary()["data_left_out"] ==
          json{"window 2026-03-03 is skipped: it arrived after window 2026-03-04 was read"});
  }
}

TEST_CASE("a start that finds no new day saves nothing, unless its position has moved",
          "[recipes]") {
  const Job job;
  for (const int day : {1, 2, 4}) {
    job.add_day(day);
  }
  job.succeed();
  const auto trained = job.checkpoints();
  CHECK(job.succeed() == "nothing new; trained on all windows up to 2026-03-04");
  CHECK(job.checkpoints() == trained);
  job.add_day(3);  // too late: it is skipped, and the next start knows it
  CHECK(job.succeed() == "nothing new; trained on all windows up to 2026-03-04");
  const auto moved = job.checkpoints();
  CHECK(moved != trained);
  CHECK(job.succeed() == "nothing new; trained on all windows up to 2026-03-04");
  CHECK(job.checkpoints() == moved);
  job.add_day(5);
  CHECK(job.succeed() == "trained on all windows up to 2026-03-05");
}

TEST_CASE("a start that finds no new day makes the evaluation that was stopped", "[recipes]") {
  const Job whole;
  whole.add_day(1);
  whole.succeed(1, whole.evaluates());
  const json expected = whole.summary();
  const Job job;
  job.add_day(1);
  const json hooks = {
      {{"type", "signal_at"},
       {"options", {{"signals", {{{"event", "before_evaluate"}, {"step", expected["steps"]}}}}}}}};
  auto stopped = job.evaluates();
  stopped.insert(stopped.end(), {"--set", "hooks=" + hooks.dump()});
  CHECK(job.run(1, stopped).exit_code == 75);
  CHECK_FALSE(job.summary()["metrics"].contains("eval/loss"));
  CHECK(job.succeed(1, job.evaluates()) == "nothing new; trained on all windows up to 2026-03-01");
  REQUIRE(job.summary()["metrics"].contains("eval/loss"));
  CHECK(job.summary()["metrics"]["eval/loss"].get<double>() ==
        Approx(expected["metrics"]["eval/loss"].get<double>()));
}

TEST_CASE("new windows need a checkpoint, windows, and no epochs", "[recipes]") {
  const auto message_with = [](const std::string& value) {
    const Job job;
    job.add_day(1);
    return job.run(1, {"--set", value}).err;
  };
  CHECK_THAT(message_with("checkpoint=null"), contains_text("add a section \"checkpoint\""));
  CHECK_THAT(message_with("train.epochs=1"), contains_text("no epoch ends"));
}

}  // namespace tenon
