// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/contradiction.hpp"

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// kSmallRecipe, but with whole --set values, so that each rule is tried the way users meet it.
std::string report(const std::vector<std::string>& sets) {
  return report_of(kSmallRecipe, sets);
}

}  // namespace

TEST_CASE("the short and the long form of the model exclude each other", "[recipe]") {
  CHECK(report({"models.main.type=llama"}) ==
        "--set #1: /models: both \"model\" and \"models\" [recipe.contradiction]\n"
        "    \"model\" is short for one entry of \"models\" named \"main\"; keep \"model\" (at "
        "recipe.json:2) or \"models\"\n"
        "1 error in recipe.json; nothing was started");
}

TEST_CASE("the short and the long form of the loss exclude each other", "[recipe]") {
  CHECK_THAT(
      report({"losses.0.type=cross_entropy"}),
      contains_text("--set #1: /losses: both \"loss\" and \"losses\" [recipe.contradiction]\n"
                    "    \"loss\" is short for a list \"losses\" of one; keep \"loss\" (at "
                    "recipe.json:7) or \"losses\""));
}

TEST_CASE("a recipe needs a model and a loss", "[recipe]") {
  const std::string text = report_of(R"({
    "data": {"batch_size": 1, "train": {"type": "numbers"}},
    "optimizer": {"type": "adamw"}, "train": {"steps": 1}})");
  CHECK_THAT(text,
             contains_text("recipe.json:1: /model: missing key [recipe.missing_key]\n"
                           "    expected a model: {\"type\": ..., \"options\": {...}}\n"));
  CHECK_THAT(text, contains_text("/loss: missing key [recipe.missing_key]"));
  CHECK_THAT(text, contains_text("2 errors"));
}

TEST_CASE("one of several models is trained; there may be several evaluation sets", "[recipe]") {
  const std::string text = report_of(R"({
    "models": {"main": {"type": "llama"}, "reference": {"type": "llama"}},
    "data": {"batch_size": 1, "train": {"type": "numbers"},
             "eval": {"a": {"type": "numbers"}, "b": {"type": "numbers"}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw"}, "train": {"steps": 1}})");
  CHECK_THAT(
      text,
      contains_text("recipe.json:2: /models: this release does not have several models with "
                    "an optimizer yet [recipe.not_available]\n    found: main, reference\n"));
  CHECK_THAT(text, contains_text("set \"optimizer\": false for each model that only runs forward"));
  CHECK_THAT(text, contains_text("1 error in"));
}

TEST_CASE("names that become file names have plain letters", "[recipe]") {
  CHECK_THAT(report({"data.eval={\"../x\": {\"type\": \"numbers\"}}"}),
             contains_text(
                 "/data/eval/..~1x: invalid name [recipe.bad_value]\n"
                 "    expected letters, digits, '_' and '-', at most 40\n    found: \"../x\"\n"));
}

TEST_CASE("names of evaluation sets leave room for those of their metrics", "[recipe]") {
  const auto with_name = [](std::size_t size) {
    return report({"data.eval={\"" + std::string(size, 'x') + "\": {\"type\": \"numbers\"}}"});
  };
  CHECK(with_name(40) == "no error");
  CHECK_THAT(with_name(41), contains_text("invalid name [recipe.bad_value]"));
}

TEST_CASE("two losses of one name are an error", "[recipe]") {
  const std::string text = report_of(R"({
    "model": {"type": "llama"},
    "data": {"batch_size": 1, "train": {"type": "numbers"}},
    "losses": [
      {"type": "cross_entropy"},
      {"type": "org.tenon.losses/mse", "name": "cross_entropy"},
      {"type": "org.tenon.losses/cross_entropy"}
    ],
    "optimizer": {"type": "adamw"}, "train": {"steps": 1}})");
  CHECK_THAT(text,
             contains_text("recipe.json:6: /losses/1/name: a second loss named "
                           "\"cross_entropy\" [recipe.duplicate_name]\n    the first is "
                           "/losses/0 at recipe.json:5; give each its own \"name\""));
  CHECK_THAT(text, contains_text("recipe.json:7: /losses/2: a second loss"));
  CHECK(default_name("org.tenon/cross_entropy") == "cross_entropy");
}

TEST_CASE("two metrics of one name, and one with the name of a built-in metric, are errors",
          "[recipe]") {
  CHECK_THAT(report({"metrics=[{\"type\": \"a\", \"name\": \"m\"}, {\"type\": \"m\"}]"}),
             contains_text("/metrics/1: a second metric named \"m\" [recipe.duplicate_name]"));
  CHECK_THAT(report({"metrics=[{\"type\": \"a\", \"name\": \"loss\"}]"}),
             contains_text("/metrics/0/name: a metric named \"loss\" clashes with a built-in "
                           "metric [recipe.duplicate_name]"));
}

TEST_CASE("training needs a run length", "[recipe]") {
  CHECK(report({"train.steps=null"}) ==
        "recipe.json:9: /train: no run length [recipe.no_horizon]\n"
        "    set at least one of steps, epochs, windows, tokens and minutes\n"
        "1 error in recipe.json; nothing was started");
  CHECK(report({"train.steps=null", "train.epochs=2"}) == "no error");
  CHECK(report({"train.steps=null", "train.windows=2"}) == "no error");
  CHECK(report({"train.steps=null", "train.tokens=2"}) == "no error");
  CHECK(report({"train.steps=null", "train.minutes=0.5"}) == "no error");
  CHECK_THAT(report({"train.minutes=0"}), contains_text("/train/minutes"));
  CHECK(report({"train.windows=2"}) == "no error");
}

TEST_CASE("a misspelt run length is one error, not two", "[recipe]") {
  const std::string misspelt = report({"train={\"stpes\": 3}"});
  CHECK_THAT(misspelt, contains_text("did you mean \"steps\"?"));
  CHECK_THAT(misspelt, contains_text("1 error in"));
  const std::string minutes = report({"train={\"minuets\": 3}"});
  CHECK_THAT(minutes, contains_text("did you mean \"minutes\"?"));
  CHECK_THAT(minutes, contains_text("1 error in"));
  const std::string foreign = report({"train={\"max_steps\": 3}"});
  CHECK_THAT(foreign, contains_text("is \"train.steps\""));
  CHECK_THAT(foreign, contains_text("1 error in"));
}

TEST_CASE("an unknown key that is no run length does not hide that there is none", "[recipe]") {
  for (const char* const key : {"warmup_steps", "total_step", "every_n_steps"}) {
    INFO(key);
    const std::string text = report({"train={\"" + std::string(key) + "\": 3}"});
    CHECK_THAT(text, contains_text("/train: no run length [recipe.no_horizon]"));
    CHECK_THAT(text, contains_text("2 errors in"));
  }
}

TEST_CASE("a schedule's length and a run length in steps must agree", "[recipe]") {
  CHECK_THAT(report({"train.total_steps=7"}),
             contains_text("--set #1: /train/total_steps: the schedule has 7 steps, but the "
                           "run has 3 [recipe.contradiction]"));
  CHECK(report({"train.total_steps=3"}) == "no error");
  CHECK(report({"train.steps=null", "train.epochs=1", "train.total_steps=7"}) == "no error");
}

TEST_CASE("accumulation follows from the global batch", "[recipe]") {
  CHECK_THAT(report({"train.global_batch_size=8", "train.gradient_accumulation=2"}),
             contains_text("--set #2: /train/gradient_accumulation: conflicts with "
                           "global_batch_size, which sets it [recipe.contradiction]\n    "
                           "remove one of the two (global_batch_size is at --set #1)"));
  CHECK(report({"train.global_batch_size=8", "train.gradient_accumulation=null"}) == "no error");
}

TEST_CASE("a global batch that the microbatch does not divide is shown with the sum", "[recipe]") {
  CHECK(
      report({"train.global_batch_size=10"}) ==
      "--set #1: /train/global_batch_size: a step of 10 samples does not divide into microbatches "
      "of 4 [recipe.indivisible]\n"
      "    10 = 2 * 4 + 2; choose a multiple of data.batch_size (at recipe.json:4)\n"
      "1 error in recipe.json; nothing was started");
}

TEST_CASE("a step of tokens needs rows of packing, and divides into them", "[recipe]") {
  const std::string packing = R"(data.train.packing={"length": 100})";
  CHECK(report({packing, "train.global_batch_tokens=800"}) == "no error");
  CHECK_THAT(report({"train.global_batch_tokens=800"}),
             contains_text("--set #1: /train/global_batch_tokens: needs data.train.packing, which "
                           "sets the tokens of a row [recipe.contradiction]\n    set "
                           "data.train.packing, or give the step in samples by "
                           "global_batch_size"));
  CHECK_THAT(report({packing, "train.global_batch_tokens=800", "train.gradient_accumulation=2"}),
             contains_text("--set #3: /train/gradient_accumulation: conflicts with "
                           "global_batch_tokens, which sets it"));
  CHECK_THAT(report({packing, "train.global_batch_tokens=800", "train.global_batch_size=8"}),
             contains_text("--set #3: /train/global_batch_size: conflicts with "
                           "global_batch_tokens: both set the size of a step"));
  CHECK(report({packing, "train.global_batch_tokens=1000"}) ==
        "--set #2: /train/global_batch_tokens: a step of 1000 tokens does not divide into "
        "microbatches of 4 rows of 100 tokens [recipe.indivisible]\n"
        "    1000 = 2 * 400 + 200; choose a multiple of data.batch_size (at recipe.json:4) times "
        "data.train.packing.length\n"
        "1 error in recipe.json; nothing was started");
}

TEST_CASE("an evaluation needs a dataset", "[recipe]") {
  for (const char* const key :
       {"every_steps=5", "every_windows=1", "every_epochs=1", "at_start=true", "at_end=true"}) {
    INFO(key);
    CHECK_THAT(report({"eval." + std::string(key)}),
               contains_text("requests an evaluation, but data.eval is null "
                             "[recipe.contradiction]"));
  }
  CHECK(report({"eval.every_steps=0", "eval.every_epochs=null", "eval.at_end=false"}) ==
        "no error");
  CHECK(report({"eval.every_steps=5", "data.eval={\"type\": \"numbers\"}"}) == "no error");
}

TEST_CASE("a dataset is one or a mix, never both and never neither", "[recipe]") {
  const std::string mix = R"([{"weight": 1, "type": "numbers"}])";
  CHECK_THAT(report({"data.train={}"}),
             contains_text("/data/train/type: missing key [recipe.missing_key]\n"
                           "    expected a dataset: {\"type\": ..., \"options\": {...}}\n"));
  CHECK_THAT(report({R"(data.train={"type": "numbers", "mix": )" + mix + "}"}),
             contains_text("/data/train/type: both \"type\" and \"mix\" [recipe.contradiction]"));
  CHECK_THAT(report({R"(data.train={"options": {}, "mix": )" + mix + "}"}),
             contains_text("/data/train/options: both \"options\" and \"mix\""));
  CHECK_THAT(report({R"(data.train={"type": "numbers", "when_one_ends": "stop"})"}),
             contains_text("/data/train/when_one_ends: applies to a mix"));
  CHECK_THAT(report({R"(data.eval={"a": {"mix": )" + mix + R"(, "type": "numbers"}})"}),
             contains_text("/data/eval/a/type: both \"type\" and \"mix\""));
}

TEST_CASE("weights and names of a mix make sense", "[recipe]") {
  const auto mix = [](const std::string& entries) {
    return report({R"(data.train={"mix": [)" + entries + "]}"});
  };
  CHECK_THAT(mix(""), contains_text("/data/train/mix: wrong number of entries"));
  CHECK_THAT(mix(R"({"type": "numbers"})"),
             contains_text("/data/train/mix/0/weight: missing key [recipe.missing_key]"));
  CHECK_THAT(mix(R"({"weight": -0.5, "type": "numbers"})"),
             contains_text("/data/train/mix/0/weight: out of range [recipe.out_of_range]"));
  CHECK_THAT(mix(R"({"weight": "a third", "type": "numbers"})"),
             contains_text("/data/train/mix/0/weight: wrong type [recipe.wrong_type]"));
  CHECK_THAT(mix(R"({"weight": 0, "type": "numbers"}, {"weight": 0.0, "type": "numbers"})"),
             contains_text("/data/train/mix: all weights are 0 [recipe.bad_value]"));
  CHECK_THAT(
      mix(R"({"weight": 1, "type": "nombers"})"),
      contains_text("/data/train/mix/0/type: ") && contains_text("did you mean \"numbers\"?"));
  CHECK_THAT(mix(R"({"weight": 1, "type": "numbers", "name": "a/b"})"),
             contains_text("/data/train/mix/0/name: not of the form asked for"));
  CHECK_THAT(mix(R"({"weight": 1, "type": "numbers", "name": "a"},
                    {"weight": 1, "type": "numbers", "name": "a"})"),
             contains_text("/data/train/mix/1/name: a second source named \"a\" "
                           "[recipe.duplicate_name]"));
  CHECK_THAT(mix(R"({"weight": 1, "mix": []})"),
             contains_text("/data/train/mix/0/mix: unknown key [recipe.unknown_key]"));
  CHECK_THAT(report({R"(data.train={"mix": [{"weight": 1, "type": "numbers"}],
                        "when_one_ends": "cycle"})"}),
             contains_text("/data/train/when_one_ends: not an allowed value [recipe.bad_value]"));
}

TEST_CASE("the best evaluation is one of several, and of data.eval", "[recipe]") {
  const std::string eval = "data.eval={\"type\": \"numbers\"}";
  const std::string best = "eval.keep_best={\"metric\": \"eval/loss\", \"mode\": \"min\"}";
  CHECK_THAT(report({eval, best}),
             contains_text("/eval/keep_best: needs evaluations during the run, but none is "
                           "scheduled [recipe.contradiction]"));
  CHECK_THAT(report({best, "eval.every_steps=1"}),
             contains_text("/eval/keep_best: requests an evaluation, but data.eval is null"));
  CHECK_THAT(
      report(
          {eval, "eval.every_steps=1", "eval.keep_best={\"metric\": \"loss\", \"mode\": \"min\"}"}),
      contains_text("/eval/keep_best/metric: not a metric of data.eval"));
  const std::string next = "={\"metric\": \"next/loss\", \"mode\": \"min\"}";
  CHECK_THAT(
      report({"eval.next_window=true", "eval.keep_best" + next, "checkpoint.keep_best" + next}),
      !contains_text("keep_best"));
  CHECK_THAT(report({"eval.with_window=after"}),
             contains_text("/eval/with_window: requests an evaluation, but data.eval is null"));
}

TEST_CASE("a section of checkpoints saves some", "[recipe]") {
  CHECK(report({"checkpoint={}"}) == "no error");
  CHECK(report({"checkpoint=null"}) == "no error");
  CHECK(report({"checkpoint={\"at_end\": false}"}) == "no error");  // on a signal
  CHECK_THAT(report({"checkpoint={\"at_end\": false, \"on_signal\": false}"}),
             contains_text("--set #1: /checkpoint: the section never saves a checkpoint "
                           "[recipe.contradiction]\n    set one of every_steps, "));
  for (const char* const key : {"every_steps=1",
                                "every_windows=1",
                                "every_epochs=1",
                                "every_minutes=0.5",
                                "at_start=true"}) {
    INFO(key);
    CHECK(report({"checkpoint={\"at_end\": false, \"on_signal\": false}",
                  "checkpoint." + std::string(key)}) == "no error");
  }
}

TEST_CASE("each export is made at some time, and has a folder of its own", "[recipe]") {
  CHECK(report({"checkpoint={\"at_end\": false, \"on_signal\": false}",
                "checkpoint.exports=[{\"format\": \"weights\", \"every_steps\": 2}]"}) ==
        "no error");
  CHECK_THAT(report({"checkpoint.exports=[{\"format\": \"weights\"}]"}),
             contains_text("--set #1: /checkpoint/exports/0: the entry never makes an export"));
  CHECK_THAT(report({"checkpoint.exports=[{\"format\": \"hf\", \"at_end\": true}, "
                     "{\"format\": \"hf\", \"every_steps\": 2}]"}),
             contains_text("--set #1: /checkpoint/exports/1/format: duplicate format \"hf\""));
}

TEST_CASE("checkpoints that are kept for their step are saved by steps", "[recipe]") {
  CHECK_THAT(report({"checkpoint.keep_every_steps=100"}),
             contains_text("/checkpoint/keep_every_steps: keeps checkpoints by step, but "
                           "checkpoint.every_steps is not set [recipe.contradiction]"));
  CHECK_THAT(report({"checkpoint.every_steps=30", "checkpoint.keep_every_steps=100"}),
             contains_text("--set #2: /checkpoint/keep_every_steps: keeps one checkpoint every "
                           "100 steps, but they are saved every 30 steps [recipe.contradiction]\n"
                           "    choose a multiple of checkpoint.every_steps (at --set #1)"));
  CHECK(report({"checkpoint.every_steps=25", "checkpoint.keep_every_steps=100"}) == "no error");
  CHECK_THAT(report({"checkpoint.every_steps=25",
                     "checkpoint.keep_every_steps=100",
                     "checkpoint.keep_last=0"}),
             contains_text("/checkpoint/keep_every_steps: has no effect: checkpoint.keep_last is "
                           "0, which keeps all checkpoints [recipe.contradiction]"));
}

TEST_CASE("the best checkpoints are those of evaluations on the way", "[recipe]") {
  const std::string eval = "data.eval={\"type\": \"numbers\"}";
  const std::string often = "eval.every_steps=1";
  const std::string best = "checkpoint.keep_best={\"metric\": \"eval/loss\", \"mode\": \"min\"}";
  CHECK(report({eval, often, best}) == "no error");
  CHECK_THAT(report({best}),
             contains_text("/checkpoint/keep_best: ranks checkpoints by an evaluation, but "
                           "data.eval is null [recipe.contradiction]"));
  CHECK_THAT(report({eval, best}),
             contains_text("/checkpoint/keep_best: needs evaluations during the run, but "
                           "none is scheduled [recipe.contradiction]"));
  CHECK_THAT(report({eval, often, best, "checkpoint.keep_best.metric=loss"}),
             contains_text("/checkpoint/keep_best/metric: not a metric of "
                           "data.eval [recipe.bad_value]"));
  CHECK_THAT(report({eval, often, best, "checkpoint.keep_last=0"}),
             contains_text("/checkpoint/keep_best: has no effect: checkpoint.keep_last is 0"));
}

TEST_CASE("who goes back to a checkpoint has saved one", "[recipe]") {
  const std::string text = "rolls back to a checkpoint, but none is saved before the end";
  CHECK_THAT(report({"checkpoint.on_spike=roll_back"}), contains_text(text));
  CHECK_THAT(report({"checkpoint.on_spike=roll_back", "checkpoint.every_minutes=5"}),
             !contains_text(text));
  const std::string back = "checkpoint={\"every_steps\": 5, \"on_spike\": \"roll_back\"}";
  CHECK(report({back}) == "no error");
  CHECK_THAT(report({back, "train.non_finite.policy=ignore"}),
             contains_text("/checkpoint/on_spike: rolls back on non-finite updates, but "
                           "train.non_finite.policy is \"ignore\" [recipe.contradiction]"));
}

}  // namespace tenon
