// SPDX-License-Identifier: Apache-2.0
#include "tests/recipes/host_run.hpp"

#include <chrono>
#include <sstream>
#include <thread>

#include "tests/support/paths.hpp"

namespace tenon {

std::vector<std::string> host_command(std::vector<std::string> prefix) {
  prefix.insert(prefix.end(),
                {host_program().string(),
                 "--plugin-dir",
                 plugin_dir().string(),
                 "--plugin-dir",
                 test_plugin_dir().string()});
  return prefix;
}

SubprocessResult run_host(const std::vector<std::string>& more, const SubprocessOptions& options) {
  std::vector<std::string> words = host_command({"timeout", "--signal=KILL", "120"});
  words.insert(words.end(), more.begin(), more.end());
  return run_subprocess(words, options);
}

SubprocessResult run_host(const std::filesystem::path& recipe,
                          const std::filesystem::path& run_dir,
                          int num_ranks,
                          const std::vector<std::string>& more,
                          const SubprocessOptions& options) {
  std::vector<std::string> words = {"--recipe", recipe.string(), "--run-dir", run_dir.string()};
  if (num_ranks > 1) {
    words.insert(words.end(), {"--launch", std::to_string(num_ranks)});
  }
  words.insert(words.end(), more.begin(), more.end());
  return run_host(words, options);
}

HostRun::HostRun(const std::string& recipe,
                 const std::vector<std::string>& arguments,
                 const SubprocessOptions& options,
                 const std::filesystem::path& program) {
  const auto file = folder_.write("recipe.json", recipe);
  std::vector<std::string> words = {(program.empty() ? host_program() : program).string(),
                                    "--recipe",
                                    file.string(),
                                    "--plugin-dir",
                                    plugin_dir().string(),
                                    "--plugin-dir",
                                    test_plugin_dir().string(),
                                    "--run-dir",
                                    run_dir().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  result_ = run_subprocess(words, options);
}

std::string HostRun::last_line() const {
  std::istringstream lines(result_.out);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("export: ") && !line.starts_with("next: ")) {
      last = line;
    }
  }
  return last;
}

std::string HostRun::file(const std::string& name) const {
  return file_text(run_dir() / name);
}

std::vector<nlohmann::json> HostRun::metrics() const {
  return metric_records(file("metrics.jsonl"));
}

nlohmann::json HostRun::summary() const {
  return nlohmann::json::parse(file("summary.json"));
}

nlohmann::json HostRun::awaited_summary() const {
  constexpr std::chrono::seconds kLimit{10};
  const auto begin = std::chrono::steady_clock::now();
  while (!std::filesystem::exists(run_dir() / "summary.json") &&
         std::chrono::steady_clock::now() - begin < kLimit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return summary();
}

std::vector<nlohmann::json> metric_records(const std::string& text) {
  std::istringstream lines(text);
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json record = nlohmann::json::parse(line);
    for (const char* name :
         {"time", "samples_per_second", "tokens_per_second", "step_seconds", "data_wait_seconds"}) {
      record.erase(name);
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<nlohmann::json> records_of(const std::filesystem::path& run_dir) {
  std::vector<nlohmann::json> records = metric_records(file_text(run_dir / "metrics.jsonl"));
  for (nlohmann::json& record : records) {
    for (auto metric = record.begin(); metric != record.end();) {
      metric = metric.key().ends_with("/bytes") ? record.erase(metric) : std::next(metric);
    }
  }
  return records;
}

std::string patched(const std::string& recipe, const std::string& patch) {
  nlohmann::json result = nlohmann::json::parse(recipe);
  result.merge_patch(nlohmann::json::parse(patch));
  return result.dump(2);
}

std::string small_recipe(const std::string& patch) {
  return patched(R"({
    "name": "small",
    "threads": {"compute": 1},
    "model": {"type": "mlp", "options": {"in_features": 4, "hidden": [8], "out_features": 3}},
    "data": {"batch_size": 4, "train": {"type": "windows", "options": {"samples": 24}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "sgd", "options": {"lr": 0.1}},
    "train": {"steps": 6, "log_every": 1}
  })",
                 patch);
}

std::string busy_recipe(const std::string& patch) {
  return patched(small_recipe(R"({
    "train": {"steps": 14, "log_every": 2, "global_batch_size": 8},
    "data": {"batch_size": 2, "train": {"options": {"samples": 40}},
             "eval": {"type": "windows", "options": {"samples": 9}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 3}},
    "metrics": [{"type": "accuracy", "options": {"train": "window"}}],
    "eval": {"every_steps": 5}
  })"),
                 patch);
}

std::string small_language_recipe(const std::string& patch) {
  return patched(R"({
    "name": "lm",
    "threads": {"compute": 1},
    "model": {"type": "llama", "options": {"vocab_size": 16, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 2}},
    "data": {"batch_size": 1, "train": {"type": "token_rows", "options": {"samples": 26, "length": 8}}},
    "loss": {"type": "cross_entropy"},
    "metrics": [{"type": "perplexity"}],
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "train": {"steps": 12, "global_batch_size": 4, "log_every": 2}
  })",
                 patch);
}

}  // namespace tenon
