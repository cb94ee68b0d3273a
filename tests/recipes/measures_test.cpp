// SPDX-License-Identifier: Apache-2.0
//
// Measures of a run of a language model: losses of each source of a mixture, and the operations of
// its steps beside the peak of the device.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kA[] =
    R"({"type": "token_sequences", "options": {"samples": 40, "max_length": 9, "ignored": true}})";
constexpr char kB[] = R"({"type": "token_sequences", "options": {"samples": 26}})";

// A mixture that reads each sample once in an epoch, and its sources as separate sets. The learning
// rate is 0, so all losses are those of the initial parameters.
std::string recipe_of(const std::string& packing, const std::string& patch = "{}") {
  json mix = json::parse(R"({"mix": [{"name": "a", "weight": 2}, {"name": "b", "weight": 1}],
                             "when_one_ends": "continue"})");
  mix["mix"][0].update(json::parse(kA));
  mix["mix"][1].update(json::parse(kB));
  json recipe = json::parse(R"({
    "name": "measures", "threads": {"compute": 1},
    "model": {"type": "llama", "options": {"vocab_size": 16, "hidden_size": 16,
              "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 1, "max_position_embeddings": 64}},
    "data": {"batch_size": 3},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "sgd", "options": {"lr": 0.0}},
    "train": {"epochs": 1, "precision": "fp64", "log_every": 1000, "loss_by_source": true}
  })");
  json a = json::parse(kA);
  json b = json::parse(kB);
  if (!packing.empty()) {
    for (json* const set : {&mix, &a, &b}) {
      (*set)["packing"] = json::parse(packing);
    }
  }
  recipe["data"]["train"] = mix;
  recipe["data"]["eval"] = {{"both", mix}, {"a", a}, {"b", b}};
  return patched(recipe.dump(), patch);
}

double number(const json& metrics, const std::string& name) {
  INFO("metric " << name << " in " << metrics.dump());
  REQUIRE(metrics.contains(name));
  return metrics.at(name).get<double>();
}

// Each source of the mixture has the loss that it has alone.
void check_sources(const json& summary) {
  const json& metrics = summary.at("metrics");
  for (const std::string source : {"a", "b"}) {
    CAPTURE(source);
    const double alone = number(metrics, "eval/" + source + "/loss");
    CHECK(number(metrics, "eval/both/data/" + source + "/loss") == Approx(alone).epsilon(1e-12));
  }
  CHECK(number(metrics, "eval/a/loss") != number(metrics, "eval/b/loss"));
  const double total = number(metrics, "eval/both/loss");
  CHECK(total > std::min(number(metrics, "eval/a/loss"), number(metrics, "eval/b/loss")));
  CHECK(total < std::max(number(metrics, "eval/a/loss"), number(metrics, "eval/b/loss")));
}

// The last records of training together have all samples; the first record is of step 1.
void check_training(const std::vector<json>& records, const json& summary) {
  for (const std::string source : {"a", "b"}) {
    CAPTURE(source);
    bool is_found = false;
    for (const json& record : records) {
      is_found = is_found || record.contains("data/" + source + "/loss");
    }
    CHECK(is_found);
    CHECK(summary.at("metrics").contains("data/" + source + "/loss"));
  }
}

std::string error_of_run(const std::string& recipe) {
  const HostRun run(recipe);
  CHECK(run.result().exit_code != 0);
  return run.result().out + run.result().err;
}

constexpr char kRows[] = R"({"length": 24, "group": 32})";

}  // namespace

TEST_CASE("each source of a mixture has the loss that it has alone", "[recipes]") {
  struct Case {
    const char* name;
    const char* packing;
    const char* patch;
  };
  for (const Case& c : {Case{"padded", "", "{}"},
                        Case{"packed", kRows, "{}"},
                        Case{"in chunks", kRows, R"({"train": {"loss_chunk": 7}})"},
                        Case{"padded, in chunks", "", R"({"train": {"loss_chunk": 7}})"}}) {
    CAPTURE(c.name);
    const HostRun run(recipe_of(c.packing, c.patch));
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    check_sources(run.summary());
    check_training(run.metrics(), run.summary());
  }
}

TEST_CASE("the losses of sources in training are means over their own labels", "[recipes]") {
  // One step has the whole epoch.
  for (const char* const packing : {"", kRows}) {
    const HostRun run(recipe_of(packing, R"({"data": {"batch_size": 128}})"));
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    const json summary = run.summary();
    const json& metrics = summary.at("metrics");
    for (const std::string source : {"a", "b"}) {
      CHECK(number(metrics, "data/" + source + "/loss") ==
            Approx(number(metrics, "eval/" + source + "/loss")).epsilon(1e-12));
    }
  }
}

TEST_CASE("losses of sources are the same on two ranks", "[recipes][ranks]") {
  const RanksRun run(recipe_of(kRows), 2);
  INFO(run.text());
  REQUIRE(run.exit_codes() == std::vector<int>{0, 0});
  check_sources(run.summary());
  check_training(run.metrics(), run.summary());
  const HostRun alone(recipe_of(kRows, R"({"data": {"batch_size": 6}})"));
  for (const std::string source : {"a", "b"}) {
    const std::string name = "data/" + source + "/loss";
    CHECK(number(run.summary().at("metrics"), name) ==
          Approx(number(alone.summary().at("metrics"), name)).epsilon(1e-12));
  }
}

TEST_CASE("losses of sources that cannot be told apart are refused", "[recipes]") {
  json recipe = json::parse(recipe_of(""));
  recipe["data"]["train"] = json::parse(kB);
  CHECK_THAT(error_of_run(recipe.dump()),
             contains_text("[loss.not_by_source]") && contains_text("is no mixture"));
}

TEST_CASE("a run reports the operations of its steps by each formula", "[recipes]") {
  const std::string patch = R"({"train": {"peak_flops": 1e9, "loss_by_source": false}})";
  for (const char* const packing : {"", kRows}) {
    const HostRun run(recipe_of(packing, patch));
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    const json flops = run.summary().at("flops");
    CHECK(flops.at("peak_flops") == 1e9);
    CHECK(flops.at("peak_is_measured") == false);
    const double seconds = flops.at("seconds").get<double>();
    // By hand: D 16, two heads of 8, one of them for keys and values, F 24, V 16, two layers.
    constexpr double kLayer = 16 * 16 * 2 + 16 * 8 * 2 + 3 * 16 * 24;
    constexpr double kMatrices = 2 * kLayer + 16 * 16;
    constexpr double kAll = kMatrices + 16 * 16 + 5 * 16;
    const double tokens = run.summary().at("tokens").get<double>();
    const json& by = flops.at("formulas");
    const double squares =
        (by.at("palm").at("model_flops").get<double>() - 6 * kAll * tokens) / (12 * 2 * 16);
    CHECK(squares > tokens);
    CHECK(by.at("titan").at("model_flops").get<double>() ==
          Approx(6 * (kMatrices + 5 * 16) * tokens + 12 * 2 * 16 * squares));
    CHECK(by.at("modalities").at("model_flops") == by.at("palm").at("model_flops"));
    // A position sees itself and those before it: half of the square, and half of the length.
    CHECK(by.at("exact").at("model_flops").get<double>() ==
          Approx(6 * kMatrices * tokens + 3 * 2 * 4 * 16 * (squares + tokens) / 2));
    for (const char* const id : {"palm", "titan", "modalities", "exact"}) {
      CHECK(by.at(id).at("hfu") == by.at(id).at("mfu"));
      CHECK(by.at(id).at("mfu").get<double>() ==
            Approx(by.at(id).at("model_flops").get<double>() / seconds / 1e9));
    }
    CHECK_THAT(run.result().out, contains_text("  mfu "));
    CHECK(run.metrics().front().contains("mfu/exact"));
    CHECK(run.metrics().front().contains("hfu/palm"));
  }
}

TEST_CASE("operations do not depend on packing, ranks or recompute", "[recipes][ranks]") {
  const std::string more = R"("peak_flops": 1e9, "loss_by_source": false)";
  const HostRun padded(recipe_of("", "{\"train\": {" + more + "}}"));
  const HostRun recomputed(
      recipe_of(kRows, "{\"train\": {\"recompute\": \"blocks\", " + more + "}}"));
  const RanksRun two(recipe_of(kRows, "{\"train\": {" + more + "}}"), 2);
  REQUIRE(padded.result().exit_code == 0);
  REQUIRE(recomputed.result().exit_code == 0);
  REQUIRE(two.exit_codes() == std::vector<int>{0, 0});
  const auto flops = [](const json& summary, const char* id, const char* key) {
    return summary.at("flops").at("formulas").at(id).at(key).get<double>();
  };
  for (const char* const id : {"palm", "titan", "modalities", "exact"}) {
    CAPTURE(id);
    const double model = flops(padded.summary(), id, "model_flops");
    CHECK(flops(recomputed.summary(), id, "model_flops") == Approx(model));
    CHECK(flops(recomputed.summary(), id, "hardware_flops") == Approx(model * 4 / 3));
    CHECK(flops(two.summary(), id, "model_flops") == Approx(model));
    CHECK(flops(two.summary(), id, "hardware_flops") == Approx(model));
  }
  CHECK(two.summary().at("flops").at("peak_flops") == 2e9);
}

TEST_CASE("a model without infer says why it has no figures, and a peak is measured", "[recipes]") {
  const HostRun run(recipe_of(kRows,
                              R"({"model": {"type": "segment_lm", "options": null},
          "train": {"peak_flops": "measure", "loss_by_source": false}})"));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const json flops = run.summary().at("flops");
  CHECK(flops.at("peak_is_measured") == true);
  CHECK(flops.at("peak_flops").get<double>() > 1e6);
  for (const char* const id : {"palm", "titan", "modalities", "exact"}) {
    CHECK_THAT(flops.at("formulas").at(id).at("why_not").get<std::string>(),
               contains_text("the model 'segment_lm' does not implement `infer`"));
  }
}

TEST_CASE("bits per byte of chats and lines follow from the loss and the bytes of labels",
          "[recipes]") {
  const ScratchFolder folder;
  const auto chat = [](const std::string& question, const std::string& answer) {
    return json{{"messages",
                 {{{"role", "user"}, {"content", question}},
                  {{"role", "assistant"}, {"content", answer}}}}}
               .dump() +
           "\n";
  };
  const json tokenizer = {
      {"type", "special_bytes"},
      {"options",
       {{"specials", {"<u>", "<a>", "</>", "<eos>"}},
        {"eos", "<eos>"},
        {"chat_template",
         "{% set marks = {'user': '<u>', 'assistant': '<a>'} %}{% for m in messages %}"
         "{{ marks[m.role] }}{{ m.content }}</>{% endfor %}"
         "{% if add_generation_prompt %}<a>{% endif %}"}}}};
  const json chats = {
      {"type", "chat"},
      {"options",
       {{"files", {folder.write("a.jsonl", chat("q", "abc") + chat("hi", "\xc3\xa4")).string()}},
        {"tokenizer", tokenizer},
        {"cache", ""},
        {"label_bytes", true}}}};
  const json lines = {
      {"type", "lines"},
      {"options",
       {{"path", folder.write("a.txt", "abcdef\n\xc3\xa4\n").string()}, {"label_bytes", true}}}};
  json recipe = json::parse(recipe_of("", R"({
    "model": {"options": {"vocab_size": 260}},
    "metrics": [{"type": "bits_per_byte"}],
    "train": {"loss_by_source": false}
  })"));
  recipe["data"]["train"] = chats;
  recipe["data"]["eval"] = {{"chats", chats}, {"lines", lines}};
  const HostRun run(recipe.dump());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const json summary = run.summary();
  const json& metrics = summary.at("metrics");
  // Labels are the bytes of both answers and two "</>", a token of three bytes.
  CHECK(number(metrics, "eval/chats/bits_per_byte") ==
        Approx(number(metrics, "eval/chats/loss") * 7 / std::log(2.0) / 11).epsilon(1e-6));
  CHECK(number(metrics, "eval/lines/bits_per_byte") ==
        Approx(number(metrics, "eval/lines/loss") / std::log(2.0)).epsilon(1e-6));
}

}  // namespace tenon
