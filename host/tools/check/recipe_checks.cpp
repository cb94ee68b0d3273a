// SPDX-License-Identifier: Apache-2.0
#include <tenon/model.h>

#include "host/model/graph.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/step_sums_proxy.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/findings.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/temporary_folder.hpp"
#include "host/trust/child/child_output.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int kRunSteps = 6;
constexpr int kStatusStopped = 75;
// Of losses on two ranks, which add in another order.
constexpr double kRankTolerance = 1e-3;

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Random numbers that calls of plugins draw. kOther: not those of the recipe's seed, while initial
// parameters and the order of the data stay.
enum class Draws { kOfSeed, kOther };

// How a run of the program ended.
struct RecipeRun {
  int exit_code = -1;
  std::string error = {};       // the last lines that it printed
  std::string output = {};      // all that it printed
  nlohmann::json summary = {};  // of the run folder
  std::vector<double> losses = {};
};

// Starts the program with these words in place of the calling process.
[[noreturn]] void start_program(const std::vector<std::string>& words,
                                const fs::path& output,
                                Draws draws) {
  if (draws == Draws::kOther) {
    ::setenv("TENON_TEST_OTHER_DRAWS", "1", 1);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  ::_exit(127);
}

// Runs of one recipe: the unchanged one in the folder of the request, others in a temporary folder.
class RecipeRuns {
 public:
  explicit RecipeRuns(Subject& subject) : subject_(subject) {}

  // Trains a few steps of the unchanged recipe.
  RecipeRun train_unchanged() { return train_in(unchanged_folder()); }

  // Returns what train_unchanged() of the check "recipe.trains", which has passed, has left.
  RecipeRun unchanged() const {
    RecipeRun run{.exit_code = 0};
    read_run(unchanged_folder(), run);
    return run;
  }

  // Trains a few steps into the folder `name`.
  RecipeRun train(const std::string& name,
                  const std::vector<std::string>& more = {},
                  Draws draws = Draws::kOfSeed) {
    return train_in(folder_.path() / name, more, draws);
  }

 private:
  fs::path unchanged_folder() const { return subject_.request().runs_folder / "unchanged"; }

  RecipeRun train_in(const fs::path& run_dir,
                     const std::vector<std::string>& more = {},
                     Draws draws = Draws::kOfSeed) {
    const CheckRequest& request = subject_.request();
    std::vector<std::string> words = {request.program.string(),
                                      "--recipe",
                                      request.recipe,
                                      "--run-dir",
                                      run_dir.string(),
                                      "--device",
                                      "cpu",
                                      "--quiet",
                                      "--set",
                                      formatted("train.steps={}", kRunSteps),
                                      "--set",
                                      "train.log_every=1",
                                      "--set",
                                      R"(checkpoint={"at_end": true})",
                                      "--set",
                                      R"(sinks=[{"type": "jsonl"}])"};
    for (const PluginFolder& folder : request.folders) {
      words.insert(words.end(), {"--plugin-dir", folder.path});
    }
    words.insert(words.end(), more.begin(), more.end());
    const fs::path output = run_dir.string() + ".txt";
    subject_.note("a run of the recipe");
    const pid_t child = ::fork();
    if (child == 0) {
      start_program(words, output, draws);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    RecipeRun run{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    run.output = text_of_file(output);
    run.error = last_words(run.output);
    read_run(run_dir, run);
    return run;
  }

  static void read_run(const fs::path& run_dir, RecipeRun& run) {
    run.summary = nlohmann::json::parse(text_of_file(run_dir / "summary.json"), nullptr, false);
    std::ifstream records(run_dir / "metrics.jsonl");
    for (std::string line; std::getline(records, line);) {
      const auto record = nlohmann::json::parse(line, nullptr, false);
      if (record.is_object() && record.contains("loss") && record["loss"].is_number()) {
        run.losses.push_back(record["loss"].get<double>());
      }
    }
  }

  Subject& subject_;
  TemporaryFolder folder_;
};

std::string hash_of(const RecipeRun& run) {
  const auto hash =
      run.summary.is_object() ? run.summary.find("parameters_hash") : run.summary.end();
  return hash != run.summary.end() && hash->is_string() ? hash->get<std::string>() : "";
}

std::string end_text(const RecipeRun& run) {
  return formatted("exit status {}: {}", run.exit_code, run.error);
}

// Reasons not to run the recipe.
std::optional<CheckResult> no_run(const Subject& subject) {
  return subject.request().recipe.empty()
             ? std::optional(skipped("no recipe was given; pass --recipe FILE"))
             : std::nullopt;
}

// Passes if the run trained, and all its losses are finite.
CheckResult result_of_training(const RecipeRun& run) {
  if (run.exit_code != 0) {
    return failed("the run ended with " + end_text(run));
  }
  if (run.losses.empty()) {
    return failed("the run recorded no loss");
  }
  for (const double loss : run.losses) {
    if (!std::isfinite(loss)) {
      return failed(formatted("the run recorded the loss {}", loss));
    }
  }
  return passed(formatted("{} steps, last loss {}", run.losses.size(), run.losses.back()));
}

}  // namespace

CheckResult check_recipe_trains(Subject& subject) {
  if (auto reason = no_run(subject)) {
    return *reason;
  }
  bool is_used = false;
  for (const CheckedComponent& checked : subject.components()) {
    is_used = is_used || checked.use != nullptr;
  }
  if (!is_used) {
    return failed("the recipe uses no component of the plugin",
                  "pass a recipe that names one of its components");
  }
  RecipeRuns runs(subject);
  return result_of_training(runs.train_unchanged());
}

CheckResult check_recipe_repeatable(Subject& subject) {
  if (auto reason = no_run(subject)) {
    return *reason;
  }
  RecipeRuns runs(subject);
  const RecipeRun first = runs.unchanged();
  const RecipeRun second = runs.train("second");
  if (second.exit_code != 0) {
    return failed("the run ended with " + end_text(second));
  }
  if (hash_of(first).empty()) {
    return skipped("the run reports no hash of its parameters");
  }
  return hash_of(first) == hash_of(second)
             ? passed("parameters hash " + hash_of(first))
             : failed("the parameters hash is " + hash_of(first) + " and then " + hash_of(second));
}

namespace {

// Stops a run halfway and resumes it, and compares its parameters with those of `whole`.
CheckResult result_of_resume(RecipeRuns& runs,
                             const RecipeRun& whole,
                             const std::string& name,
                             const std::vector<std::string>& settings) {
  std::vector<std::string> with_stop = settings;
  with_stop.insert(with_stop.end(), {"--set", formatted("train.exit_at_step={}", kRunSteps / 2)});
  const RecipeRun half = runs.train(name, with_stop);
  if (half.exit_code != kStatusStopped) {
    return failed("a run that stops halfway ended with " + end_text(half));
  }
  const RecipeRun resumed = runs.train(name, settings);
  if (resumed.exit_code != 0) {
    return failed("the run ended with " + end_text(resumed));
  }
  return !hash_of(whole).empty() && hash_of(whole) == hash_of(resumed)
             ? passed()
             : failed("the parameters hash is " + hash_of(whole) + ", and " + hash_of(resumed) +
                      " after a stop and a resume");
}

// Returns how the losses of two runs differ; "" if they are equal up to the order of sums.
std::string difference_of_losses(const RecipeRun& one, const RecipeRun& two) {
  if (one.losses.size() != two.losses.size()) {
    return formatted(
        "the run has {} losses on one rank, {} on two", one.losses.size(), two.losses.size());
  }
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    const double difference = std::abs(one.losses[i] - two.losses[i]);
    if (!(difference <= kRankTolerance * std::max(1.0, std::abs(one.losses[i])))) {
      return formatted("the loss of record {} is {} on one rank, {} on two",
                       i + 1,
                       one.losses[i],
                       two.losses[i]);
    }
  }
  return "";
}

// Returns the name of a buffer of the recipe's model that is that of rank 0, or nothing.
std::optional<std::string> state_of_rank_0(Subject& subject) {
  ModelProxy model(subject.factory().create(subject.recipe().model.use, "check/model"));
  const ModelGraph graph = describe_model(model);
  std::set<uint32_t> summed;
  if (const auto sums = StepSumsProxy::of(model.instance())) {
    const std::vector<uint32_t> buffers = sums->describe().buffers;
    summed.insert(buffers.begin(), buffers.end());
  }
  for (const ModelBuffer& buffer : graph.buffers) {
    if (buffer.kind == TENON_BUFFER_STATE && !summed.contains(buffer.number)) {
      return buffer.name;
    }
  }
  return std::nullopt;
}

// Returns why the losses of one rank need not be those of two (docs/ranks.md, "What differs by
// more"); "" if they must be.
std::string why_ranks_may_differ(Subject& subject,
                                 RecipeRuns& runs,
                                 const RecipeRun& one,
                                 const std::vector<std::string>& settings) {
  if (runs.train("drawn", settings, Draws::kOther).losses != one.losses) {
    return "the recipe draws random numbers, which differ between ranks";
  }
  if (const auto buffer = state_of_rank_0(subject)) {
    return "buffer \"" + *buffer + "\" of the model is that of rank 0";
  }
  return "";
}

}  // namespace

CheckResult check_recipe_resumes(Subject& subject) {
  if (auto reason = no_run(subject)) {
    return *reason;
  }
  RecipeRuns runs(subject);
  return result_of_resume(runs, runs.unchanged(), "cut", {});
}

CheckResult check_recipe_ranks(Subject& subject) {
  if (auto reason = no_run(subject)) {
    return *reason;
  }
  const Recipe& recipe = subject.recipe();
  const std::string batch = formatted("train.global_batch_size={}", 2 * recipe.data.batch_size);
  const std::vector<std::string> same_batch = {"--set",
                                               batch,
                                               "--set",
                                               "train.gradient_accumulation=null",
                                               "--set",
                                               "train.global_batch_tokens=null"};
  RecipeRuns runs(subject);
  const RecipeRun one = runs.train("one", same_batch);
  std::vector<std::string> with_launch = same_batch;
  with_launch.insert(with_launch.end(), {"--launch", "2", "--bind", "none"});
  const RecipeRun two = runs.train("two", with_launch);
  constexpr int kStatusUsage = 2;
  constexpr int kStatusRecipe = 3;
  for (const RecipeRun* const run : {&one, &two}) {
    if (run->exit_code == kStatusUsage || run->exit_code == kStatusRecipe) {
      return skipped("the recipe does not allow two ranks: " + run->error);
    }
    if (run->exit_code != 0) {
      return failed((run == &two ? "on two ranks, the run ended with " : "the run ended with ") +
                    end_text(*run));
    }
  }
  const std::string difference = difference_of_losses(one, two);
  if (difference.empty()) {
    return passed();
  }
  const std::string why = why_ranks_may_differ(subject, runs, one, same_batch);
  if (why.empty()) {
    return failed(difference);
  }
  // What stays defined: the same ranks give the same bits again, and after a resume.
  const RecipeRun again = runs.train("again", with_launch);
  if (hash_of(again) != hash_of(two)) {
    return failed("on two ranks, the parameters hash is " + hash_of(two) + " and then " +
                  hash_of(again));
  }
  CheckResult resumed = result_of_resume(runs, two, "cut", with_launch);
  return resumed.outcome == CheckOutcome::kPassed
             ? passed(why + ", so two runs on two ranks were compared")
             : resumed;
}

CheckResult check_recipe_calls(Subject& subject) {
  if (auto reason = no_run(subject)) {
    return *reason;
  }
  RecipeRuns runs(subject);
  const RecipeRun run = runs.train("checked", {"--check-plugins"});
  if (run.exit_code != 0) {
    return failed("the run ended with " + end_text(run));
  }
  // What a run reports and survives.
  std::istringstream lines(run.output);
  Findings findings;
  findings.add_examined();
  for (std::string line; std::getline(lines, line);) {
    if (line.find("[plugin.bad_call]") != std::string::npos ||
        line.find("; Tenon has restored it") != std::string::npos) {
      findings.add_problem(line);
    }
  }
  return findings.result("");
}

CheckResult check_recipe_fp64(Subject& subject) {
  if (auto reason = no_run(subject)) {
    return *reason;
  }
  RecipeRuns runs(subject);
  // Losses are not compared with those of another precision: initial parameters differ.
  return result_of_training(runs.train("precise", {"--set", "train.precision=fp64"}));
}

}  // namespace tenon
