// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/failing_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/recipes/host_run.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

constexpr const char* kMark = "@MARK@";  // its place is known once there is a folder

std::string with_mark(std::string recipe, const std::string& mark) {
  if (const size_t found = recipe.find(kMark); found != std::string::npos) {
    recipe.replace(found, std::string(kMark).size(), mark);
  }
  return recipe;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

std::string failing_recipe(const std::string& fail_at, const std::string& patch) {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "data": {"train": {"options": {"samples": 48}}},
    "parallel": {"timeout_seconds": 3, "start_timeout_seconds": 30}})"));
  nlohmann::json options = nlohmann::json::parse(fail_at);
  options["mark"] = kMark;
  recipe["hooks"] = {{{"type", "fail_at"}, {"options", options}}};
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump(2);
}

std::vector<std::string> FailingRanks::words(const std::string& recipe) const {
  const auto file =
      folder_->write("recipe.json", with_mark(recipe, (folder_->path() / "mark").string()));
  return {host_program().string(),
          "--recipe",
          file.string(),
          "--plugin-dir",
          plugin_dir().string(),
          "--plugin-dir",
          test_plugin_dir().string(),
          "--run-dir",
          run_dir().string()};
}

FailingRanks FailingRanks::launched(const std::string& recipe,
                                    uint32_t num_ranks,
                                    const SubprocessOptions& options) {
  FailingRanks run;
  // Ranks die with their launcher, however that ends.
  std::vector<std::string> words = {"timeout", "--signal=KILL", "100"};
  const std::vector<std::string> own = run.words(recipe);
  words.insert(words.end(), own.begin(), own.end());
  words.insert(words.end(), {"--launch", std::to_string(num_ranks)});
  run.results_.push_back(run_subprocess(words, options));
  run.note_end(std::filesystem::file_time_type::clock::now());
  return run;
}

FailingRanks FailingRanks::started(const std::string& recipe,
                                   const std::vector<FailingRank>& ranks,
                                   uint16_t port) {
  FailingRanks run;
  run.port_ = port != 0 ? port : free_loopback_port();
  run.results_.resize(ranks.size());
  const std::vector<std::string> own = run.words(recipe);
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].is_started) {
      continue;
    }
    threads.emplace_back([&, rank] {
      const FailingRank& start = ranks[rank];
      std::vector<std::string> words = {
          "timeout", "--signal=KILL", std::to_string(start.seconds_to_live)};
      if (start.open_files > 0) {
        words.insert(words.end(), {"prlimit", "--nofile=" + std::to_string(start.open_files)});
      }
      words.insert(words.end(), own.begin(), own.end());
      if (!start.plugins.empty()) {
        *std::find(words.begin(), words.end(), plugin_dir().string()) = start.plugins;
      }
      words.insert(words.end(), start.arguments.begin(), start.arguments.end());
      SubprocessOptions options = start.options;
      const std::string size = std::to_string(ranks.size());
      options.environment.insert({{"RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", size},
                                  {"LOCAL_RANK", std::to_string(rank)},
                                  {"LOCAL_WORLD_SIZE", size},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", std::to_string(run.port_)}});
      run.results_[rank] = run_subprocess(words, options);
    });
  }
  threads.clear();
  run.note_end(std::filesystem::file_time_type::clock::now());
  return run;
}

void FailingRanks::note_end(std::filesystem::file_time_type end) {
  std::error_code none;
  const auto mark = std::filesystem::last_write_time(folder_->path() / "mark", none);
  if (!none) {
    seconds_from_fault_ = std::chrono::duration<double>(end - mark).count();
  }
}

std::vector<int> FailingRanks::exit_codes() const {
  std::vector<int> codes;
  for (const SubprocessResult& result : results_) {
    codes.push_back(result.exit_code);
  }
  return codes;
}

std::string FailingRanks::text() const {
  std::string text;
  for (const SubprocessResult& result : results_) {
    text += result.out + result.err;
  }
  return text;
}

size_t FailingRanks::num_reports() const {
  return count(text(), "\n  rank 0: ");
}

bool FailingRanks::names_collective_of_each() const {
  const std::string text = this->text();
  const size_t begin = text.find("\n  rank 0: ");
  std::istringstream lines(text.substr(std::min(begin + 1, text.size())));
  const std::regex named(R"(  rank \d+: in step \d+.*; \w+ \d+: \w+ of ".*", \d+ bytes, .*)");
  size_t num_named = 0;
  size_t num_lines = 0;
  for (std::string line; std::getline(lines, line) && line.starts_with("  rank "); ++num_lines) {
    num_named += std::regex_match(line, named) ? 1 : 0;
  }
  return num_lines >= 2 && num_named == num_lines;
}

nlohmann::json FailingRanks::record(uint32_t rank) const {
  return nlohmann::json::parse(
      file_text(run_dir() / "errors" / ("rank-" + std::to_string(rank) + ".json")));
}

nlohmann::json FailingRanks::summary() const {
  return nlohmann::json::parse(file_text(run_dir() / "summary.json"));
}

std::vector<std::string> FailingRanks::leftovers() const {
  std::vector<std::string> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(process.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (line.find(folder_->path().string()) != std::string::npos) {
      found.push_back(process.path().filename().string() + ": " + line);
    }
  }
  return found;
}

}  // namespace tenon
