// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/zoo/zoo_run.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <string_view>
#include <sys/resource.h>
#include <thread>
#include <utility>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr const char* kRankMark = "\"@RANK@\"";  // with its quotes, so that a patch is JSON
// On top of the limit of a row, for machines that are busy. A rank that is lost counts as slow
// after 20 seconds (zoo_recipe).
constexpr double kSlackSeconds = 90;
constexpr std::size_t kShownBytes = 6000;
constexpr int kNumWorkers = 2;

// What a program says if it blames itself.
constexpr const char* kSelfBlame[] = {
    "host.internal", "run.internal", "bug of the host", "mistake of the program"};

std::string replaced(std::string text, std::string_view mark, const std::string& by) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), by);
  }
  return text;
}

std::string zoo_recipe(const BadRun& row, int num_ranks) {
  const std::string base =
      small_recipe(R"({"parallel": {"timeout_seconds": 20, "start_timeout_seconds": 60}})");
  return patched(base, replaced(row.patch, kRankMark, num_ranks > 1 ? "1" : "0"));
}

std::optional<nlohmann::json> await_summary(const fs::path& run_dir) {
  constexpr std::chrono::seconds kLimit{10};  // another process writes it after a crash
  const fs::path file = run_dir / "summary.json";
  const auto begin = std::chrono::steady_clock::now();
  while (!fs::exists(file)) {
    if (!fs::exists(run_dir) || std::chrono::steady_clock::now() - begin > kLimit) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  nlohmann::json summary = nlohmann::json::parse(file_text(file), nullptr, false);
  return summary.is_object() ? std::optional(std::move(summary)) : std::nullopt;
}

std::string logs_of(const fs::path& run_dir) {
  std::string text;
  for (const char* const name : {"log.txt", "logs/rank-1.txt"}) {
    if (fs::exists(run_dir / name)) {
      text += file_text(run_dir / name);
    }
  }
  return text;
}

ZooResult run_row(const BadRun& row, int num_ranks) {
  const ScratchFolder folder;
  const fs::path run_dir = folder.path() / "run";
  const auto limit = static_cast<int>(std::ceil(row.limit_s + kSlackSeconds));
  std::vector<std::string> words = {
      "timeout",
      "--signal=KILL",
      std::to_string(limit),
      host_program().string(),
      "--recipe",
      folder.write("recipe.json", zoo_recipe(row, num_ranks)).string(),
      "--run-dir",
      run_dir.string(),
      "--plugin-dir",
      plugin_dir().string(),
      "--plugin-dir",
      test_plugin_dir().string()};
  for (const std::string& name : row.folders) {
    words.insert(words.end(), {"--plugin-dir", (build_dir() / "tests" / name).string()});
  }
  if (!row.copies.empty()) {
    const fs::path plugins = folder.path() / "plugins";
    fs::create_directory(plugins);
    for (const std::string& name : row.copies) {
      fs::copy_file(build_dir() / "tests/zoo" / (name + ".so"), plugins / (name + ".so"));
    }
    words.insert(words.end(), {"--plugin-dir", plugins.string()});
  }
  if (num_ranks > 1) {
    words.insert(words.end(), {"--launch", std::to_string(num_ranks)});
  }
  ZooResult result;
  result.num_ranks = num_ranks;
  SubprocessOptions options;
  options.environment = row.environment;
  result.process = run_subprocess(words, options);
  result.has_folder = fs::exists(run_dir);
  if (result.has_folder) {
    result.summary = await_summary(run_dir);
    result.logs = logs_of(run_dir);
  }
  return result;
}

// The results of all rows, on one rank and on two, in this order.
std::vector<ZooResult> run_rows(const std::vector<BadRun>& rows) {
  constexpr rlimit kNoCore{0, 0};  // crashes are on purpose
  ::setrlimit(RLIMIT_CORE, &kNoCore);
  std::vector<ZooResult> results(2 * rows.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < kNumWorkers; ++i) {
    workers.emplace_back([&] {
      for (std::size_t job = next++; job < results.size(); job = next++) {
        try {
          results[job] = run_row(rows[job / 2], job % 2 == 0 ? 1 : 2);
        } catch (
            const std::exception& error) {  // a file is missing, or there are no processes left
          results[job].process.err = error.what();
        }
      }
    });
  }
  workers.clear();
  return results;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// True if `text` has `word` from `begin` on, and not as part of a longer word.
bool has_word(const std::string& text, const std::string& word, std::size_t begin = 0) {
  const auto is_of_word = [&](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(word, begin); at != std::string::npos;
       at = text.find(word, at + 1)) {
    if ((at == 0 || !is_of_word(at - 1)) && !is_of_word(at + word.size())) {
      return true;
    }
  }
  return false;
}

std::string shown(const std::string& text) {
  return text.size() <= kShownBytes ? text
                                    : text.substr(0, kShownBytes / 2) + "\n[...]\n" +
                                          text.substr(text.size() - kShownBytes / 2);
}

bool is_done(const BadRun& row) {
  return row.exit_codes == std::vector<int>{0};
}

void check_summary(const BadRun& row, const ZooResult& result) {
  const int code = result.process.exit_code;
  const bool has_started = code == 0 || code == 5 || code == 6;
  CHECK((result.has_folder || !has_started));
  if (!result.has_folder) {
    return;
  }
  CHECK(result.summary.has_value());
  if (!result.summary.has_value()) {
    return;
  }
  if (row.summary_of == SummaryOf::kEither) {
    return;
  }
  const bool says_done = is_done(row) || row.summary_of == SummaryOf::kRun;
  CHECK((*result.summary)["outcome"] == (says_done ? "done" : "failed"));
  CHECK((*result.summary)["exit_code"] == (says_done ? 0 : code));
}

// The step is in the texts of crashes and of ranks, and in the summary of any run.
void check_step(const BadRun& row, const ZooResult& result) {
  const bool is_in_summary =
      result.summary.has_value() && result.summary->value("steps", uint64_t{0}) == row.step;
  INFO("step " << row.step);
  CHECK((is_in_summary || has_word(result.process.err, "step " + std::to_string(row.step))));
}

void check_names(const BadRun& row, const ZooResult& result) {
  const std::string& err = result.process.err;
  CHECK(has(err, row.plugin));
  std::size_t at = 0;
  if (!row.component.empty()) {
    const std::string whole = row.component + " (plugin " + row.plugin + " ";
    CHECK_THAT(err, contains_text(whole));
    at = std::min(err.find(whole), err.size());
  }
  if (!row.function.empty()) {
    INFO("function " << row.function);
    CHECK(has_word(err, row.function, at));
  }
  if (row.step != 0) {
    check_step(row, result);
  }
  if (row.rank_of_two.has_value() && result.num_ranks > 1) {
    INFO("rank " << *row.rank_of_two);
    CHECK(has_word(err, "rank " + std::to_string(*row.rank_of_two)));
  }
}

void check_row(const BadRun& row, const ZooResult& result) {
  const SubprocessResult& process = result.process;
  INFO(row.name << " on " << result.num_ranks << " rank(s): exit status " << process.exit_code
                << "\n--- stdout\n"
                << shown(process.out) << "\n--- stderr\n"
                << shown(process.err) << "\n--- summary\n"
                << (result.summary.has_value() ? result.summary->dump() : "none"));
  CHECK(process.exit_code != 137);  // killed after its limit
  CHECK(std::ranges::count(row.exit_codes, process.exit_code) == 1);
  for (const char* const text : kSelfBlame) {
    CHECK_THAT(process.out + process.err, !contains_text(text));
  }
  if (!is_done(row)) {
    CHECK(process.exit_code != 0);
    CHECK_FALSE(process.err.empty());
    const bool has_id = std::ranges::any_of(
        row.ids, [&](const std::string& id) { return has(process.err, "[" + id + "]"); });
    CHECK((has_id || row.ids.empty()));
  }
  check_names(row, result);
  for (const std::string& text : row.says) {
    CHECK_THAT(process.err, contains_text(text));
  }
  check_summary(row, result);
  if (row.more) {
    row.more(result);
  }
}

// The components of `misbehaves`.
struct Kind {
  const char* kind;       // of a row
  const char* component;  // in messages
  const char* patch;      // "@USE@" becomes type and options
  const char* options;    // besides the fault
};

constexpr Kind kKinds[] = {
    {"loss", "loss \"bad_loss\"", R"({"loss": @USE@})", ""},
    {"hook", "hook \"bad_hook\"", R"({"hooks": [@USE@]})", ""},
    {"model",
     "model \"bad_model\"",
     R"({"model": @USE@})",
     R"("in_features": null, "hidden": null, "out_features": null, )"},
    {"dataset", "dataset \"bad_map\"", R"({"data": {"train": @USE@}})", R"("samples": null, )"},
    {"stream", "dataset \"bad_stream\"", R"({"data": {"train": @USE@}})", R"("samples": null, )"},
    {"optimizer", "optimizer \"bad_optimizer\"", R"({"optimizer": @USE@})", ""},
    {"lr_scheduler", "lr_scheduler \"bad_schedule\"", R"({"lr_scheduler": @USE@})", ""},
    {"metric", "metric \"bad_metric\"", R"({"metrics": [@USE@]})", ""},
    {"metric_sink", "metric_sink \"bad_sink\"", R"({"sinks": [@USE@]})", ""},
    {"feature",
     "feature \"bad_feature\"",
     R"({"features": [{"name": "extra", "from": "labels", "do": [@USE@]}]})",
     ""},
    {"tokenizer",
     "tokenizer \"bad_tokenizer\"",
     R"({"data": {"train": {"type": "text", "options": {"samples": null, "path": "recipe.json",
       "sequence_length": 8, "tokenizer": @USE@}}}})",
     ""},
    {"storage",
     "storage \"bad_storage\"",
     R"({"checkpoint": {"at_end": false, "storage": @USE@}})",
     ""},
};

// "bad_hook" of `hook "bad_hook"`.
std::string type_of(const std::string& component) {
  const std::size_t begin = component.find('"') + 1;
  return component.substr(begin, component.size() - begin - 1);
}

BadRun of_kind(const std::string& name, const std::string& fault) {
  const auto* const kind = std::ranges::find(kKinds, name, &Kind::kind);
  REQUIRE(kind != std::end(kKinds));
  const std::string use = R"({"type": ")" + type_of(kind->component) + R"(", "options": {)" +
                          kind->options + R"("fault": ")" + fault + R"(", "rank": )" + kRankMark +
                          "}}";
  return {.name = name + " " + fault,
          .folders = {"faults_zoo/misbehaves"},
          .patch = replaced(kind->patch, "@USE@", use),
          .plugin = "org.tenon.zoo.misbehaves",
          .component = kind->component,
          .rank_of_two = 1};
}

}  // namespace

BadRun of_start(const std::string& kind,
                const std::string& fault,
                const std::vector<std::string>& ids,
                const std::vector<std::string>& says) {
  BadRun row = of_kind(kind, fault);
  row.exit_codes = {4};
  row.ids = ids;
  row.says = says;
  return row;
}

BadRun of_step(const std::string& kind,
               const std::string& fault,
               const std::vector<std::string>& ids,
               const std::vector<std::string>& says) {
  BadRun row = of_start(kind, fault, ids, says);
  row.exit_codes = {5};
  row.step = 3;
  return row;
}

BadRun finishes(const std::string& kind, const std::string& fault) {
  BadRun row = of_start(kind, fault, {});
  row.exit_codes = {0};
  row.plugin.clear();
  row.component.clear();
  row.rank_of_two.reset();
  return row;
}

BadRun in_function(const std::string& function, BadRun row) {
  row.function = function;
  return row;
}

BadRun crashing(BadRun row) {
  row.is_crash = true;
  return row;
}

BadRun with_patch(const std::string& patch, BadRun row) {
  row.patch = patched(row.patch, patch);
  return row;
}

BadRun of_rank_0(BadRun row) {
  row = of_all_ranks(std::move(row));
  row.rank_of_two = 0;
  return row;
}

BadRun of_all_ranks(BadRun row) {
  row.patch = replaced(row.patch, kRankMark, "-1");
  row.rank_of_two.reset();
  return row;
}

void check_zoo(const std::vector<BadRun>& rows) {
  std::vector<BadRun> run = rows;
#ifdef __SANITIZE_ADDRESS__
  std::erase_if(run, [](const BadRun& row) { return row.is_crash; });
#endif
  run = members_of(std::move(run), 2);
  const std::vector<ZooResult> results = run_rows(run);
  for (std::size_t i = 0; i < results.size(); ++i) {
    check_row(run[i / 2], results[i]);
  }
}

}  // namespace tenon
