// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/oracle.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <utility>

#include "tests/recipes/host_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The exit statuses that docs/reference/command-line.md lists, and the end by SIGKILL, which the
// attacks send. Any other signal is a crash.
constexpr int kStatuses[] = {0, 1, 2, 3, 4, 5, 6, 75, 128 + 9};

// "" for what is no file: an attack may have put a folder or a device there.
std::string regular_text(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? file_text(file) : "";
}

json parsed(const fs::path& file) {
  return json::parse(regular_text(file), nullptr, /*allow_exceptions=*/false);
}

// The entries of an index that do not depend on the time.
json state_of(const json& index) {
  json state = json::object();
  const auto add = [&state](const json& entries, const std::string& prefix) {
    for (const char* const kind : {"tensors", "numbers"}) {
      for (const auto& [name, entry] : entries.at(kind).items()) {
        if (name == "run/seconds" || name == "figures/figures") {
          continue;
        }
        json& stored = state[prefix + name] = entry;
        if (stored.contains("pieces")) {  // not where they lie, but what they are
          for (json& piece : stored["pieces"]) {
            piece.erase("begin");
            piece.erase("end");
          }
        }
      }
    }
  };
  add(index.at("shared"), "");
  int rank = 0;
  for (const json& entries : index.at("by_rank")) {
    add(entries, "rank " + std::to_string(rank++) + ": ");
  }
  return state;
}

std::string first_difference(const json& a, const json& b) {
  for (const auto& [name, value] : a.items()) {
    if (!b.contains(name)) {
      return name + " is missing";
    }
    if (b[name] != value) {
      return name + " differs";
    }
  }
  return a.size() == b.size() ? "" : "there are more entries";
}

}  // namespace

std::string error_id_of(const std::string& log) {
  for (std::size_t at = log.find('['); at != std::string::npos; at = log.find('[', at + 1)) {
    const std::size_t end = log.find(']', at);
    const std::string id = end != std::string::npos ? log.substr(at + 1, end - at - 1) : "";
    const std::size_t dot = id.find('.');
    if (dot != std::string::npos && dot > 0 && dot + 1 < id.size() &&
        id.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.0123456789") == std::string::npos &&
        id[0] >= 'a') {
      return id;
    }
  }
  return "";
}

std::string bad_ending(const std::optional<int>& status, const std::string& log) {
  if (!status.has_value()) {
    return "it did not end in time";
  }
  if (std::ranges::find(kStatuses, *status) == std::end(kStatuses)) {
    return *status > 128 ? "it ended by signal " + std::to_string(*status - 128)
                         : "the exit status " + std::to_string(*status) + " is not documented";
  }
  // The commands of the attacks are right.
  for (const char* const id : {"[host.internal]", "[run.internal]", "[usage.bad_option]"}) {
    if (log.find(id) != std::string::npos) {
      return std::string("it reports ") + id;
    }
  }
  const bool is_error = *status != 0 && *status != 1 && *status != 75 && *status != 128 + 9;
  return is_error && error_id_of(log).empty() ? "it failed without an error id" : "";
}

std::vector<std::string> checkpoint_names(const fs::path& run) {
  std::vector<std::pair<unsigned long long, std::string>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string record = regular_text(entry.path() / "COMMITTED");
    if (!record.empty() && !name.starts_with('.')) {
      found.emplace_back(std::strtoull(record.c_str(), nullptr, 10), name);
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [sequence, name] : found) {
    names.push_back(name);
  }
  return names;
}

std::string run_difference(const fs::path& run_a, const fs::path& run_b, Metrics metrics) {
  const std::vector<std::string> a = checkpoint_names(run_a);
  const std::vector<std::string> b = checkpoint_names(run_b);
  if (a.empty() || b.empty()) {
    return "a run has no checkpoint";
  }
  if (a.back() != b.back()) {
    return "the newest checkpoints are " + a.back() + " and " + b.back();
  }
  try {
    const json index_a = parsed(run_a / "checkpoints" / a.back() / "index.json");
    const json index_b = parsed(run_b / "checkpoints" / b.back() / "index.json");
    if (const std::string state = first_difference(state_of(index_a), state_of(index_b));
        !state.empty()) {
      return "the checkpoints differ: " + state;
    }
    const json summary_a = parsed(run_a / "summary.json");
    const json summary_b = parsed(run_b / "summary.json");
    for (const char* const key : {"parameters_hash", "samples", "outcome"}) {
      if (summary_a.at(key) != summary_b.at(key)) {
        return std::string("summary.json differs in ") + key;
      }
    }
    if (metrics == Metrics::kCompare && !fs::is_regular_file(run_b / "metrics.jsonl")) {
      return "metrics.jsonl is not a file";
    }
    if (metrics == Metrics::kCompare && records_of(run_a) != records_of(run_b)) {
      return "metrics.jsonl differs";
    }
  } catch (const json::exception& error) {
    return std::string("a file cannot be read: ") + error.what();
  }
  return "";
}

const std::vector<AttackedRecipe>& attacked_recipes() {
  static const std::vector<AttackedRecipe> recipes = [] {
    const std::string saves = R"({
        "train": {"steps": 16},
        "parallel": {"timeout_seconds": 8, "start_timeout_seconds": 60},
        "checkpoint": {"every_steps": 2, "keep_last": 2}})";
    return std::vector<AttackedRecipe>{{"tables", patched(busy_recipe(saves), kRowsOfTables)},
                                       {"lm", small_language_recipe(saves)}};
  }();
  return recipes;
}

std::vector<std::string> run_words(const fs::path& recipe,
                                   const fs::path& run,
                                   int num_ranks,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--recipe", recipe.string(), "--run-dir", run.string()};
  if (num_ranks > 1) {
    words.insert(words.end(), {"--launch", std::to_string(num_ranks)});
  }
  words.insert(words.end(), more.begin(), more.end());
  return attacked_host(words);
}

Ended act_on(const std::string& action, const fs::path& path, const fs::path& log) {
  return run_to_end({host_program().string(), action, path.string()}, log);
}

Ended run_to_end(const std::vector<std::string>& words,
                 const fs::path& log,
                 const ChildOptions& options) {
  constexpr std::chrono::seconds kLimit{120};
  Child child(words, log, options);
  Ended ended;
  ended.status = child.wait(kLimit);
  ended.log = child.log();
  ended.command = child.command();
  ended.peak_bytes = child.peak_bytes();
  return ended;
}

}  // namespace tenon
