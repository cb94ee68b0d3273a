// SPDX-License-Identifier: Apache-2.0
//
// Values of environment variables that a recipe uses: components get them, and nothing else shows
// them.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

constexpr char kSecret[] = "q7Zp3xVw9LkT";

// The files below a folder that have the text in their content or name.
Words files_with(const fs::path& folder, const std::string& text) {
  Words found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().find(text) != std::string::npos ||
        (entry.is_regular_file() && file_text(entry.path()).find(text) != std::string::npos)) {
      found.push_back(entry.path().string());
    }
  }
  return found;
}

// A run over a text whose folder only the environment names.
class SecretRun {
 public:
  SecretRun() {
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      text += static_cast<char>('a' + i % 13);
    }
    for (const char* const name : {kSecret, "another"}) {
      folder_.write(fs::path(name) / "text.txt", text);
    }
    recipe_ = folder_.write("recipe.json", small_language_recipe(R"({
      "model": {"options": {"vocab_size": 256}},
      "data": {"train": {"type": "text",
        "options": {"samples": null, "length": null, "path": "${ENV:TENON_TEST_DIR}/text.txt",
                    "sequence_length": 8}}},
      "checkpoint": {"every_steps": 6}})"));
  }

  SubprocessResult act(const Words& words, const std::string& value) const {
    SubprocessOptions options;
    if (!value.empty()) {
      options.environment["TENON_TEST_DIR"] = path(value);
    }
    const SubprocessResult result = run_host(words, options);
    INFO(result.out << result.err);
    CHECK(result.out.find(kSecret) == std::string::npos);
    CHECK(result.err.find(kSecret) == std::string::npos);
    return result;
  }
  SubprocessResult run(const Words& more, const std::string& value = kSecret) const {
    Words words = {"--recipe", recipe_.string(), "--run-dir", path("run")};
    words.insert(words.end(), more.begin(), more.end());
    return act(words, value);
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string recipe() const { return recipe_.string(); }

 private:
  ScratchFolder folder_;
  fs::path recipe_;
};

}  // namespace

TEST_CASE("the value of a variable is in no file and no output of a run", "[faults]") {
  const SecretRun secret;
  REQUIRE(secret.run({"--log-level", "debug"}).exit_code == 0);
  CHECK(files_with(secret.path("run"), kSecret) == Words{});
  const std::string frozen = file_text(fs::path(secret.path("run")) / "recipe.json");
  CHECK_THAT(frozen, contains_text("${ENV:TENON_TEST_DIR}/text.txt\""));
  CHECK_THAT(frozen, contains_text("\"TENON_TEST_DIR\": \""));

  const Words of_recipe = {"--recipe", secret.recipe()};
  for (const Words& action : {Words{"--print-recipe"},
                              Words{"--validate"},
                              Words{"--plan", "1"},
                              Words{"--plan", "1", "--json"}}) {
    Words words = of_recipe;
    words.insert(words.end(), action.begin(), action.end());
    CHECK(secret.act(words, kSecret).exit_code == 0);
  }
  const SubprocessResult inspected =
      run_subprocess({host_program().string(), "--inspect", secret.path("run")});
  CHECK(inspected.exit_code == 0);
  CHECK((inspected.out + inspected.err).find(kSecret) == std::string::npos);
  CHECK(
      secret.act({"--export", "hf", secret.path("model"), "--run-dir", secret.path("run")}, kSecret)
          .exit_code == 0);
  CHECK(files_with(secret.path("model"), kSecret) == Words{});
}

TEST_CASE("a run resumes with variables, also from its frozen recipe", "[faults]") {
  const SecretRun secret;
  REQUIRE(secret.run({}).exit_code == 0);
  const SubprocessResult same = secret.run({"--set", "train.steps=14"});
  CHECK(same.exit_code == 0);
  CHECK(same.err.find("differs") == std::string::npos);
  const SubprocessResult frozen = secret.act({"--recipe",
                                              secret.path("run") + "/recipe.json",
                                              "--run-dir",
                                              secret.path("run"),
                                              "--set",
                                              "train.steps=16"},
                                             kSecret);
  CHECK(frozen.exit_code == 0);
  CHECK(frozen.err.find("differs") == std::string::npos);

  const SubprocessResult moved = secret.run({"--set", "train.steps=18"}, "another");
  CHECK(moved.exit_code == 0);
  CHECK_THAT(moved.err,
             contains_text("text.txt\" with another value; another path, whose content must be the "
                           "same"));
  const SubprocessResult unset = secret.run({}, "");
  CHECK(unset.exit_code == 3);
  CHECK_THAT(unset.err, contains_text("recipe.env_unset"));
}

TEST_CASE("an error in an option shows the variable instead of its value", "[faults]") {
  const SecretRun secret;
  const SubprocessResult steps = secret.run({"--set", "train.steps=${ENV:TENON_TEST_DIR}"});
  CHECK(steps.exit_code == 3);
  CHECK_THAT(steps.err, contains_text("found: string \"${ENV:TENON_TEST_DIR}\""));
  const SubprocessResult device =
      secret.run({"--set", "train={\"steps\": [\"${ENV:TENON_TEST_DIR}\"]}"});
  CHECK(device.exit_code == 3);
  CHECK_THAT(device.err, contains_text("found: list [\"${ENV:TENON_TEST_DIR}\"]"));
}

TEST_CASE("keys in the URI of a storage are in no message and no file", "[faults]") {
  const ScratchFolder folder;
  const auto run_with = [&](const std::string& uri) {
    const std::string recipe = small_recipe(
        nlohmann::json(
            {{"checkpoint",
              {{"storage",
                {{"type", "s3"},
                 {"options", {{"uri", uri}, {"attempts", 1}, {"connect_timeout_seconds", 1}}}}}}}})
            .dump());
    const SubprocessResult result = run_host(folder.write("recipe.json", recipe),
                                             folder.path() / "run",
                                             1,
                                             {"--log-level", "debug"},
                                             {.environment = {{"TENON_TEST_KEY", kSecret}}});
    INFO(result.out << result.err);
    CHECK(result.exit_code != 0);
    CHECK(result.out.find(kSecret) == std::string::npos);
    CHECK(result.err.find(kSecret) == std::string::npos);
    CHECK(files_with(folder.path(), kSecret) == Words{});
    return result.err;
  };
  CHECK_THAT(run_with("s3://AKIA:${ENV:TENON_TEST_KEY}@runs/x?nonsense=1"),
             contains_text("\"s3://***@runs/x?nonsense=1\" is not a valid"));
  CHECK_THAT(run_with("s3://AKIA:${ENV:TENON_TEST_KEY}/+ @runs/x?region=eu"),
             contains_text("s3.bad_uri"));
  run_with(
      "s3://AKIA:${ENV:TENON_TEST_KEY}@runs/x?region=eu&scheme=http&endpoint_override="
      "127.0.0.1:1");
}

}  // namespace tenon
