// SPDX-License-Identifier: Apache-2.0
//
// Runs over columnar files: in windows, on ranks, from a folder that grows, from a server of S3.
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/s3_server.hpp"

namespace tenon {
namespace {

std::filesystem::path basic() {
  return source_dir() / "tests/plugins/columnar/basic.parquet";
}

// Trains on four columns of the files at `path`, which are copies of basic.parquet.
std::string recipe_of(const std::string& path,
                      const nlohmann::json& windows,
                      const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json options = {
      {"paths", {path}},
      {"columns",
       {{{"name", "x"}, {"columns", {"age", "price", "label", "price"}}, {"type", "f32"}},
        {{"name", "labels"}, {"column", "flag"}}}},
      {"windows", windows},
      {"shards", 2}};
  options.merge_patch(more);
  return nlohmann::json{
      {"name", "columnar"},
      {"threads", {{"compute", 1}}},
      {"model",
       {{"type", "mlp"}, {"options", {{"in_features", 4}, {"hidden", {8}}, {"out_features", 3}}}}},
      {"data",
       {{"batch_size", 8},
        {"loader_threads", 3},
        {"train", {{"type", "columnar"}, {"options", options}}}}},
      {"loss", {{"type", "cross_entropy"}}},
      {"optimizer", {{"type", "sgd"}, {"options", {{"lr", 0.001}}}}},
      {"train", {{"epochs", 1}, {"log_every", 1}}}}
      .dump();
}

void add_hour(const std::filesystem::path& root, int hour) {
  const auto folder = root / ("dt=2026-11-20/hr=0" + std::to_string(hour));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(basic(), folder / "a.parquet.tmp");
  std::filesystem::rename(folder / "a.parquet.tmp", folder / "a.parquet");
}

const nlohmann::json kHours = {{"by", "time"}, {"pattern", "dt=%Y-%m-%d/hr=%H"}};

// Waits for a condition of another process, for a minute at most.
template <class Condition>
bool wait_for(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace

TEST_CASE("a run trains window by window on columnar files, on one rank or two", "[recipes]") {
  const ScratchFolder data;
  for (const int hour : {1, 2, 3}) {
    add_hour(data.path(), hour);
  }
  const std::string recipe = recipe_of(data.path().string(), kHours);
  const HostRun one(recipe);
  INFO(one.result().err);
  REQUIRE(one.result().exit_code == 0);
  CHECK(one.summary()["windows"] == 3);
  CHECK(one.summary()["steps"] == 42);  // 50 rows of each of two shards: 7 batches
  const HostRun again(recipe, {"--set", "data.loader_threads=1"});
  CHECK(again.summary()["parameters_hash"] == one.summary()["parameters_hash"]);

  const RanksRun two(recipe, 2);
  INFO(two.text());
  REQUIRE(two.exit_codes() == std::vector<int>{0, 0});
  CHECK(two.summary()["windows"] == 3);
  CHECK(two.summary()["steps"] == 21);
}

TEST_CASE("a run follows a folder that others write to", "[recipes][.release]") {
  const ScratchFolder data;
  add_hour(data.path(), 1);
  nlohmann::json windows = kHours;
  windows["follow"] = {{"poll_seconds", 0.01}, {"max_wait", 60}};
  const ScratchFolder folder;
  const std::filesystem::path recipe =
      folder.write("recipe.json", recipe_of(data.path().string(), windows));
  const std::filesystem::path run = folder.path() / "run";
  const auto num_steps = [&] {
    std::ifstream metrics(run / "metrics.jsonl");
    size_t lines = 0;
    for (std::string line; std::getline(metrics, line);) {
      lines += line.find("\"loss\"") != std::string::npos ? 1 : 0;
    }
    return lines;
  };
  SubprocessResult result;
  std::thread host([&] {
    result = run_subprocess({host_program().string(),
                             "--recipe",
                             recipe.string(),
                             "--plugin-dir",
                             plugin_dir().string(),
                             "--run-dir",
                             run.string()});
  });
  // Each window is whole when the next one begins.
  bool came = wait_for([&] { return std::filesystem::exists(run); });
  add_hour(data.path(), 2);
  came = came && wait_for([&] { return num_steps() == 14; });
  add_hour(data.path(), 3);
  came = came && wait_for([&] { return num_steps() == 28; });
  std::ofstream(data.path() / "_END").close();
  host.join();
  INFO(result.err);
  CHECK(came);
  REQUIRE(result.exit_code == 0);
  const auto followed = nlohmann::json::parse(file_text(run / "summary.json"));
  CHECK(followed["windows"] == 3);
  const HostRun whole(recipe_of(data.path().string(), kHours));
  CHECK(followed["parameters_hash"] == whole.summary()["parameters_hash"]);
}

TEST_CASE("a file that is damaged ends the run before its first step", "[recipes]") {
  const ScratchFolder data;
  add_hour(data.path(), 1);
  const std::string whole = file_text(basic());
  data.write("dt=2026-11-20/hr=02/a.parquet", whole.substr(0, whole.size() / 2));
  const HostRun run(recipe_of(data.path().string(), kHours));
  CHECK(run.result().exit_code != 0);
  INFO(run.result().err);
  CHECK(run.result().err.find("hr=02/a.parquet") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
}

TEST_CASE("a run reads its windows from a server of S3", "[recipes][.release]") {
  if (!S3Server::is_there()) {
    TENON_SKIP("there is no server of S3; `./dev deps --peers` brings one");
  }
  const ScratchFolder data;
  for (const int hour : {1, 2}) {
    add_hour(data.path() / "clicks", hour);
  }
  const HostRun here(recipe_of((data.path() / "clicks").string(), kHours));
  INFO(here.result().err);
  REQUIRE(here.result().exit_code == 0);

  const S3Server server(data.path(), "logs");
  REQUIRE_FALSE(server.port().empty());
  const std::string options = server.uri_options();
  const SubprocessOptions with_keys{.environment = S3Server::environment()};
  for (const std::string path : {"s3://logs/clicks", "s3://logs/clicks/dt=*/hr=*/*.parquet"}) {
    CAPTURE(path);
    const HostRun there(recipe_of(path + options, kHours), {}, with_keys);
    INFO(there.result().err);
    REQUIRE(there.result().exit_code == 0);
    CHECK(there.summary()["windows"] == 2);
    CHECK(there.summary()["parameters_hash"] == here.summary()["parameters_hash"]);
  }
  // From here and there in one run, which ends in order as well.
  nlohmann::json both = nlohmann::json::parse(recipe_of("", kHours));
  both["data"]["train"]["options"]["paths"] = {
      "file://" + (data.path() / "clicks/dt=2026-11-20/hr=01/a.parquet").string(),
      "s3://logs/clicks/dt=2026-11-20/hr=02/a.parquet" + options};
  const HostRun mixed(both.dump(), {}, with_keys);
  INFO(mixed.result().err);
  CHECK(mixed.result().exit_code == 0);
  CHECK(mixed.summary()["parameters_hash"] == here.summary()["parameters_hash"]);
  const HostRun none(recipe_of("s3://logs/nothing" + options, kHours), {}, with_keys);
  CHECK(none.result().exit_code != 0);
  CHECK(none.result().err.find("s3://logs/nothing does not exist") != std::string::npos);
}

}  // namespace tenon
