// SPDX-License-Identifier: Apache-2.0
//
// Data that is not there, is too little, changes under the run, or does not fit the rest of it.
#include <filesystem>
#include <string>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A small llama over a text, changed by a JSON merge patch.
std::string text_recipe(const std::filesystem::path& path, const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "model": {"type": "llama", "options": {"in_features": null, "hidden": null,
      "out_features": null, "vocab_size": 256, "hidden_size": 16, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2}},
    "data": {"train": {"type": "text", "options": {"samples": null, "sequence_length": 8}}}})"));
  recipe["data"]["train"]["options"]["path"] = path.string();
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

// Rows of four numbers and a label.
std::string csv_recipe(const std::filesystem::path& path, const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "data": {"shuffle": false, "train": {"type": "csv", "options": {"samples": null, "fields": [
      {"name": "x", "columns": ["a..d"], "dtype": "f32"}, {"name": "labels", "dtype": "i64"}]}}}})"));
  recipe["data"]["train"]["options"]["files"] = {path.string()};
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

std::string csv_text(const std::vector<std::string>& labels) {
  std::string text = "a,b,c,d,labels\n";
  for (const std::string& label : labels) {
    text += "1,2,3,4," + label + "\n";
  }
  return text;
}

// The run ended before its first step, and left nothing.
void check_not_begun(const HostRun& run, int exit_code, const std::string& says) {
  INFO(run.result().err);
  CHECK(run.result().exit_code == exit_code);
  CHECK_THAT(run.result().err, contains_text(says));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

// A hook that changes the size of `path` after the second step of many.
std::string resized(const std::filesystem::path& path, int size) {
  return R"({"data": {"prefetch": 1}, "train": {"steps": 200}, "hooks": [{"type": "resize_file",
    "options": {"step": 2, "path": ")" +
         path.string() + R"(", "size": )" + std::to_string(size) + "}}]}";
}

}  // namespace

TEST_CASE("a data file that is missing, no file, empty or too short is reported before the run",
          "[faults]") {
  const ScratchFolder folder;
  const std::string text = "[plugin.failed] dataset \"text\" (plugin org.tenon.text ";
  const std::string csv = "[plugin.failed] dataset \"csv\" (plugin org.tenon.csv ";
  const auto absent = folder.path() / "absent";
  const std::string says_absent = "cannot open " + absent.string() + ": No such file";
  check_not_begun(HostRun(text_recipe(absent)), 4, text);
  check_not_begun(HostRun(text_recipe(absent)), 4, says_absent);
  check_not_begun(HostRun(csv_recipe(absent)), 4, csv);
  check_not_begun(HostRun(csv_recipe(absent)), 4, says_absent);
  check_not_begun(HostRun(csv_recipe(folder.path() / "no*.csv")), 4, "no file matches the pattern");
  check_not_begun(HostRun(text_recipe(folder.path())), 4, "is a folder, not a regular file");
  const auto empty = folder.write("empty", "");
  check_not_begun(HostRun(text_recipe(empty)), 4, "empty is empty");
  check_not_begun(HostRun(csv_recipe(empty)), 4, "empty is empty");
  const auto header = folder.write("header.csv", csv_text({}));
  check_not_begun(HostRun(csv_recipe(header)), 4, "has no rows to read");
  const auto eight = folder.write("short", "12345678");
  check_not_begun(HostRun(text_recipe(eight)), 4, "has 8 tokens");
  check_not_begun(HostRun(text_recipe(eight)), 4, "a sample needs 9");
}

TEST_CASE("a data file that is truncated or grows during training ends the run with its name",
          "[faults]") {
  const ScratchFolder folder;
  for (const bool is_cut : {true, false}) {
    const auto text = folder.write("data.txt", std::string(10000, 'a'));
    const HostRun of_text(text_recipe(text, resized(text, is_cut ? 20 : 20000)));
    INFO(of_text.result().err);
    CHECK(of_text.result().exit_code == 5);
    CHECK_THAT(of_text.result().err, contains_text("[plugin.failed] dataset \"text\""));
    CHECK_THAT(of_text.result().err, contains_text(text.string()));
    CHECK_THAT(of_text.result().err, contains_text("do not change it while a run reads it"));
    CHECK(of_text.summary()["error_id"] == "plugin.failed");

    const auto table = folder.write("data.csv", csv_text(std::vector<std::string>(200, "1")));
    const HostRun of_csv(csv_recipe(table, resized(table, is_cut ? 20 : 20000)));
    INFO(of_csv.result().err);
    CHECK(of_csv.result().exit_code == 5);
    CHECK_THAT(of_csv.result().err, contains_text("[plugin.failed] dataset \"csv\""));
    CHECK_THAT(of_csv.result().err, contains_text(table.string()));
    CHECK_THAT(of_csv.result().err, contains_text("do not change it while a run reads it"));
  }
}

TEST_CASE("truncating a file that a plugin maps ends the process with the name of the call",
          "[faults]") {
#ifdef __SANITIZE_ADDRESS__
  TENON_SKIP("the address sanitizer reports crashes in its own way, before anybody else");
#endif
  const std::string faults[][2] = {{"cut_mapping", "SIGBUS"}, {"abort", "SIGABRT"}};
  for (const auto& [how, signal] : faults) {
    const HostRun run(small_recipe(R"({"data": {"train": {"type": "faulty", "options":
      {"samples": null, "at": "read", "how": ")" +
                                   how + R"(", "calls_before": 3}}}})"));
    INFO(run.result().err);
    // A loader reads ahead: the first step may not have begun.
    CHECK((run.result().exit_code == 4 || run.result().exit_code == 5));
    CHECK_THAT(run.result().err,
               contains_text("error: [plugin.crashed] dataset \"faulty\" (plugin "
                             "org.tenon.test.faulty 0.1.0, "));
    CHECK_THAT(run.result().err, contains_text("read crashed with " + signal));
  }
}

TEST_CASE("a label out of range is reported with its value and position", "[faults]") {
  const ScratchFolder folder;
  struct Wrong {
    std::string label;
    std::string patch;
    std::string says;
  };
  const Wrong list[] = {
      {"3", "{}", "label 3 at position 1 of labels [4] is neither in [0, 3)"},
      {"-1", "{}", "label -1 at position 1 of labels [4] is neither in [0, 3)"},
      {"1000000000000", "{}", "label 1000000000000 at position 1"},
      {"3", R"({"train": {"precision": "bf16"}})", "label 3 at position 1"},
      {"3", R"({"loss": {"options": {"label_smoothing": 0.1}}})", "label 3 at position 1"},
      {"-100", R"({"loss": {"options": {"ignore_index": -1}}})", "label -100 at position 1"},
      {"2", R"({"loss": {"type": "bce_with_logits"}})", "label 2 at position 1 of labels [4]"},
  };
  for (const Wrong& wrong : list) {
    const auto file = folder.write("t.csv", csv_text({"0", wrong.label, "1", "0"}));
    const HostRun run(csv_recipe(file, wrong.patch));
    INFO(wrong.patch << "\n" << run.result().err);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err, contains_text("[plugin.failed] loss \""));
    CHECK_THAT(run.result().err, contains_text(wrong.says));
    CHECK(run.summary()["steps"] == 1);  // the step under way
  }
  const auto ignored = folder.write("t.csv", csv_text({"0", "-100", "1", "0"}));
  CHECK(HostRun(csv_recipe(ignored)).result().exit_code == 0);
}

TEST_CASE("a token outside the vocabulary is reported with its value and position", "[faults]") {
  const ScratchFolder folder;
  const auto text = folder.write("data.txt", std::string(1000, 'a'));
  const HostRun run(text_recipe(text, R"({"model": {"options": {"vocab_size": 50}}})"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("block 'embed': model \"llama\""));
  CHECK_THAT(run.result().err,
             contains_text("token 97 at position 0 of input_ids [4, 8] is not in [0, 50)"));
}

TEST_CASE("data that does not fit the model or the loss is reported before the run with both",
          "[faults]") {
  const ScratchFolder folder;
  const auto file = folder.write("t.csv", csv_text({"0", "1", "2", "0"}));
  const std::string data = "dataset \"csv\" (plugin org.tenon.csv ";
  const auto check =
      [&](const std::string& patch, const std::string& id, const std::string& other) {
        const HostRun run(csv_recipe(file, patch));
        check_not_begun(run, 3, id);
        INFO(patch);
        CHECK_THAT(run.result().err, contains_text(data));
        CHECK_THAT(run.result().err, contains_text(other));
      };
  check(R"({"model": {"options": {"input": "pixels"}}})",
        "[model.field_missing]",
        "model \"mlp\" (plugin org.tenon.mlp ");
  check(R"({"model": {"options": {"in_features": 5}}})",
        "[model.field_mismatch]",
        "model \"mlp\" (plugin org.tenon.mlp ");
  check(R"({"loss": {"inputs": {"labels": "digit"}}})",
        "[loss.unknown_input]",
        "loss 'cross_entropy'");
  check(
      R"({"loss": {"inputs": {"labels": "x"}}})", "[loss.input_mismatch]", "loss 'cross_entropy'");
  check(R"({"metrics": [{"type": "accuracy", "inputs": {"labels": "digit"}}]})",
        "[metric.unknown_input]",
        "metric 'accuracy'");
  // Of an evaluation set too, although it is read long after the first step.
  const HostRun run(
      csv_recipe(file, R"({"data": {"eval": {"type": "windows", "options": {"dim": 3}}}})"));
  check_not_begun(run, 3, "[model.field_mismatch]");
  CHECK_THAT(run.result().err, contains_text("dataset \"windows\""));
}

TEST_CASE("names that make a metric name too long are reported before the run", "[faults]") {
  const std::string long_name(90, 'n');
  const std::string says = "[recipe.out_of_range] the metric name 'eval/";
  const std::string with_eval = R"("data": {"eval": {"some_name": {"type": "windows"}}})";
  check_not_begun(
      HostRun(small_recipe(R"({"loss": null, "losses": [{"type": "cross_entropy", "name": ")" +
                           long_name + R"("}, {"type": "cross_entropy", "name": "b"}], )" +
                           with_eval + "}")),
      3,
      says);
  check_not_begun(HostRun(small_recipe(R"({"metrics": [{"type": "accuracy", "name": ")" +
                                       long_name + R"("}], )" + with_eval + "}")),
                  3,
                  says);
  // A loss on its own is called "loss", whatever its name is.
  CHECK(HostRun(small_recipe(R"({"loss": {"name": ")" + long_name + R"("}, )" + with_eval + "}"))
            .result()
            .exit_code == 0);
}

}  // namespace tenon
