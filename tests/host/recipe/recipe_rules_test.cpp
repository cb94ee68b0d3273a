// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_rules.hpp"

#include "host/json/schema_arbiter.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// kSmallRecipe, but with whole --set values, so that each rule is tried the way users meet it.
std::string report_with(const std::vector<std::string>& sets) {
  return report_of(kSmallRecipe, sets);
}

}  // namespace

TEST_CASE("the short and the long form of the model exclude each other", "[recipe]") {
  CHECK(report_with({"models.main.type=llama"}) ==
        "--set #1: /models: both \"model\" and \"models\" [recipe.contradiction]\n"
        "    \"model\" is short for one entry of \"models\" named \"main\"; keep \"model\" (at "
        "recipe.json:2) or \"models\"\n"
        "1 error in recipe.json; nothing was started");
}

TEST_CASE("the short and the long form of the loss exclude each other", "[recipe]") {
  CHECK_THAT(
      report_with({"losses.0.type=cross_entropy"}),
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
  CHECK_THAT(report_with({"data.eval={\"../x\": {\"type\": \"numbers\"}}"}),
             contains_text(
                 "/data/eval/..~1x: invalid name [recipe.bad_value]\n"
                 "    expected letters, digits, '_' and '-', at most 40\n    found: \"../x\"\n"));
}

TEST_CASE("names of evaluation sets leave room for those of their metrics", "[recipe]") {
  const auto with_name = [](std::size_t size) {
    return report_with({"data.eval={\"" + std::string(size, 'x') + "\": {\"type\": \"numbers\"}}"});
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
  CHECK_THAT(report_with({"metrics=[{\"type\": \"a\", \"name\": \"m\"}, {\"type\": \"m\"}]"}),
             contains_text("/metrics/1: a second metric named \"m\" [recipe.duplicate_name]"));
  CHECK_THAT(report_with({"metrics=[{\"type\": \"a\", \"name\": \"loss\"}]"}),
             contains_text("/metrics/0/name: a metric named \"loss\" clashes with a built-in "
                           "metric [recipe.duplicate_name]"));
}

TEST_CASE("training needs a run length", "[recipe]") {
  CHECK(report_with({"train.steps=null"}) ==
        "recipe.json:9: /train: no run length [recipe.no_horizon]\n"
        "    set at least one of steps, epochs, windows, tokens and minutes\n"
        "1 error in recipe.json; nothing was started");
  CHECK(report_with({"train.steps=null", "train.epochs=2"}) == "no error");
  CHECK(report_with({"train.steps=null", "train.windows=2"}) == "no error");
  CHECK(report_with({"train.steps=null", "train.tokens=2"}) == "no error");
  CHECK(report_with({"train.steps=null", "train.minutes=0.5"}) == "no error");
  CHECK_THAT(report_with({"train.minutes=0"}), contains_text("/train/minutes"));
  CHECK(report_with({"train.windows=2"}) == "no error");
}

TEST_CASE("a misspelt run length is one error, not two", "[recipe]") {
  const std::string misspelt = report_with({"train={\"stpes\": 3}"});
  CHECK_THAT(misspelt, contains_text("did you mean \"steps\"?"));
  CHECK_THAT(misspelt, contains_text("1 error in"));
  const std::string minutes = report_with({"train={\"minuets\": 3}"});
  CHECK_THAT(minutes, contains_text("did you mean \"minutes\"?"));
  CHECK_THAT(minutes, contains_text("1 error in"));
  const std::string foreign = report_with({"train={\"max_steps\": 3}"});
  CHECK_THAT(foreign, contains_text("is \"train.steps\""));
  CHECK_THAT(foreign, contains_text("1 error in"));
}

TEST_CASE("an unknown key that is no run length does not hide that there is none", "[recipe]") {
  for (const char* const key : {"warmup_steps", "total_step", "every_n_steps"}) {
    INFO(key);
    const std::string text = report_with({"train={\"" + std::string(key) + "\": 3}"});
    CHECK_THAT(text, contains_text("/train: no run length [recipe.no_horizon]"));
    CHECK_THAT(text, contains_text("2 errors in"));
  }
}

TEST_CASE("a schedule's length and a run length in steps must agree", "[recipe]") {
  CHECK_THAT(report_with({"train.total_steps=7"}),
             contains_text("--set #1: /train/total_steps: the schedule has 7 steps, but the "
                           "run has 3 [recipe.contradiction]"));
  CHECK(report_with({"train.total_steps=3"}) == "no error");
  CHECK(report_with({"train.steps=null", "train.epochs=1", "train.total_steps=7"}) == "no error");
}

TEST_CASE("accumulation follows from the global batch", "[recipe]") {
  CHECK_THAT(report_with({"train.global_batch_size=8", "train.gradient_accumulation=2"}),
             contains_text("--set #2: /train/gradient_accumulation: conflicts with "
                           "global_batch_size, which sets it [recipe.contradiction]\n    "
                           "remove one of the two (global_batch_size is at --set #1)"));
  CHECK(report_with({"train.global_batch_size=8", "train.gradient_accumulation=null"}) ==
        "no error");
}

TEST_CASE("a global batch that the microbatch does not divide is shown with the sum", "[recipe]") {
  CHECK(
      report_with({"train.global_batch_size=10"}) ==
      "--set #1: /train/global_batch_size: a step of 10 samples does not divide into microbatches "
      "of 4 [recipe.indivisible]\n"
      "    10 = 2 * 4 + 2; choose a multiple of data.batch_size (at recipe.json:4)\n"
      "1 error in recipe.json; nothing was started");
}

TEST_CASE("a step of tokens needs rows of packing, and divides into them", "[recipe]") {
  const std::string packing = R"(data.train.packing={"length": 100})";
  CHECK(report_with({packing, "train.global_batch_tokens=800"}) == "no error");
  CHECK_THAT(report_with({"train.global_batch_tokens=800"}),
             contains_text("--set #1: /train/global_batch_tokens: needs data.train.packing, which "
                           "sets the tokens of a row [recipe.contradiction]\n    set "
                           "data.train.packing, or give the step in samples by "
                           "global_batch_size"));
  CHECK_THAT(
      report_with({packing, "train.global_batch_tokens=800", "train.gradient_accumulation=2"}),
      contains_text("--set #3: /train/gradient_accumulation: conflicts with "
                    "global_batch_tokens, which sets it"));
  CHECK_THAT(report_with({packing, "train.global_batch_tokens=800", "train.global_batch_size=8"}),
             contains_text("--set #3: /train/global_batch_size: conflicts with "
                           "global_batch_tokens: both set the size of a step"));
  CHECK(report_with({packing, "train.global_batch_tokens=1000"}) ==
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
    CHECK_THAT(report_with({"eval." + std::string(key)}),
               contains_text("requests an evaluation, but data.eval is null "
                             "[recipe.contradiction]"));
  }
  CHECK(report_with({"eval.every_steps=0", "eval.every_epochs=null", "eval.at_end=false"}) ==
        "no error");
  CHECK(report_with({"eval.every_steps=5", "data.eval={\"type\": \"numbers\"}"}) == "no error");
}

TEST_CASE("a dataset is one or a mix, never both and never neither", "[recipe]") {
  const std::string mix = R"([{"weight": 1, "type": "numbers"}])";
  CHECK_THAT(report_with({"data.train={}"}),
             contains_text("/data/train/type: missing key [recipe.missing_key]\n"
                           "    expected a dataset: {\"type\": ..., \"options\": {...}}\n"));
  CHECK_THAT(report_with({R"(data.train={"type": "numbers", "mix": )" + mix + "}"}),
             contains_text("/data/train/type: both \"type\" and \"mix\" [recipe.contradiction]"));
  CHECK_THAT(report_with({R"(data.train={"options": {}, "mix": )" + mix + "}"}),
             contains_text("/data/train/options: both \"options\" and \"mix\""));
  CHECK_THAT(report_with({R"(data.train={"type": "numbers", "when_one_ends": "stop"})"}),
             contains_text("/data/train/when_one_ends: applies to a mix"));
  CHECK_THAT(report_with({R"(data.eval={"a": {"mix": )" + mix + R"(, "type": "numbers"}})"}),
             contains_text("/data/eval/a/type: both \"type\" and \"mix\""));
}

TEST_CASE("weights and names of a mix make sense", "[recipe]") {
  const auto mix = [](const std::string& entries) {
    return report_with({R"(data.train={"mix": [)" + entries + "]}"});
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
  CHECK_THAT(report_with({R"(data.train={"mix": [{"weight": 1, "type": "numbers"}],
                        "when_one_ends": "cycle"})"}),
             contains_text("/data/train/when_one_ends: not an allowed value [recipe.bad_value]"));
}

TEST_CASE("the best evaluation is one of several, and of data.eval", "[recipe]") {
  const std::string eval = "data.eval={\"type\": \"numbers\"}";
  const std::string best = "eval.keep_best={\"metric\": \"eval/loss\", \"mode\": \"min\"}";
  CHECK_THAT(report_with({eval, best}),
             contains_text("/eval/keep_best: needs evaluations during the run, but none is "
                           "scheduled [recipe.contradiction]"));
  CHECK_THAT(report_with({best, "eval.every_steps=1"}),
             contains_text("/eval/keep_best: requests an evaluation, but data.eval is null"));
  CHECK_THAT(
      report_with(
          {eval, "eval.every_steps=1", "eval.keep_best={\"metric\": \"loss\", \"mode\": \"min\"}"}),
      contains_text("/eval/keep_best/metric: not a metric of data.eval"));
  const std::string next = "={\"metric\": \"next/loss\", \"mode\": \"min\"}";
  CHECK_THAT(report_with(
                 {"eval.next_window=true", "eval.keep_best" + next, "checkpoint.keep_best" + next}),
             !contains_text("keep_best"));
  CHECK_THAT(report_with({"eval.with_window=after"}),
             contains_text("/eval/with_window: requests an evaluation, but data.eval is null"));
}

TEST_CASE("a section of checkpoints saves some", "[recipe]") {
  CHECK(report_with({"checkpoint={}"}) == "no error");
  CHECK(report_with({"checkpoint=null"}) == "no error");
  CHECK(report_with({"checkpoint={\"at_end\": false}"}) == "no error");  // on a signal
  CHECK_THAT(report_with({"checkpoint={\"at_end\": false, \"on_signal\": false}"}),
             contains_text("--set #1: /checkpoint: the section never saves a checkpoint "
                           "[recipe.contradiction]\n    set one of every_steps, "));
  for (const char* const key : {"every_steps=1",
                                "every_windows=1",
                                "every_epochs=1",
                                "every_minutes=0.5",
                                "at_start=true"}) {
    INFO(key);
    CHECK(report_with({"checkpoint={\"at_end\": false, \"on_signal\": false}",
                       "checkpoint." + std::string(key)}) == "no error");
  }
}

TEST_CASE("each export is made at some time, and has a folder of its own", "[recipe]") {
  CHECK(report_with({"checkpoint={\"at_end\": false, \"on_signal\": false}",
                     "checkpoint.exports=[{\"format\": \"weights\", \"every_steps\": 2}]"}) ==
        "no error");
  CHECK_THAT(report_with({"checkpoint.exports=[{\"format\": \"weights\"}]"}),
             contains_text("--set #1: /checkpoint/exports/0: the entry never makes an export"));
  CHECK_THAT(report_with({"checkpoint.exports=[{\"format\": \"hf\", \"at_end\": true}, "
                          "{\"format\": \"hf\", \"every_steps\": 2}]"}),
             contains_text("--set #1: /checkpoint/exports/1/format: duplicate format \"hf\""));
}

TEST_CASE("checkpoints that are kept for their step are saved by steps", "[recipe]") {
  CHECK_THAT(report_with({"checkpoint.keep_every_steps=100"}),
             contains_text("/checkpoint/keep_every_steps: keeps checkpoints by step, but "
                           "checkpoint.every_steps is not set [recipe.contradiction]"));
  CHECK_THAT(report_with({"checkpoint.every_steps=30", "checkpoint.keep_every_steps=100"}),
             contains_text("--set #2: /checkpoint/keep_every_steps: keeps one checkpoint every "
                           "100 steps, but they are saved every 30 steps [recipe.contradiction]\n"
                           "    choose a multiple of checkpoint.every_steps (at --set #1)"));
  CHECK(report_with({"checkpoint.every_steps=25", "checkpoint.keep_every_steps=100"}) ==
        "no error");
  CHECK_THAT(report_with({"checkpoint.every_steps=25",
                          "checkpoint.keep_every_steps=100",
                          "checkpoint.keep_last=0"}),
             contains_text("/checkpoint/keep_every_steps: has no effect: checkpoint.keep_last is "
                           "0, which keeps all checkpoints [recipe.contradiction]"));
}

TEST_CASE("the best checkpoints are those of evaluations on the way", "[recipe]") {
  const std::string eval = "data.eval={\"type\": \"numbers\"}";
  const std::string often = "eval.every_steps=1";
  const std::string best = "checkpoint.keep_best={\"metric\": \"eval/loss\", \"mode\": \"min\"}";
  CHECK(report_with({eval, often, best}) == "no error");
  CHECK_THAT(report_with({best}),
             contains_text("/checkpoint/keep_best: ranks checkpoints by an evaluation, but "
                           "data.eval is null [recipe.contradiction]"));
  CHECK_THAT(report_with({eval, best}),
             contains_text("/checkpoint/keep_best: needs evaluations during the run, but "
                           "none is scheduled [recipe.contradiction]"));
  CHECK_THAT(report_with({eval, often, best, "checkpoint.keep_best.metric=loss"}),
             contains_text("/checkpoint/keep_best/metric: not a metric of "
                           "data.eval [recipe.bad_value]"));
  CHECK_THAT(report_with({eval, often, best, "checkpoint.keep_last=0"}),
             contains_text("/checkpoint/keep_best: has no effect: checkpoint.keep_last is 0"));
}

TEST_CASE("who goes back to a checkpoint has saved one", "[recipe]") {
  const std::string text = "rolls back to a checkpoint, but none is saved before the end";
  CHECK_THAT(report_with({"checkpoint.on_spike=roll_back"}), contains_text(text));
  CHECK_THAT(report_with({"checkpoint.on_spike=roll_back", "checkpoint.every_minutes=5"}),
             !contains_text(text));
  const std::string back = "checkpoint={\"every_steps\": 5, \"on_spike\": \"roll_back\"}";
  CHECK(report_with({back}) == "no error");
  CHECK_THAT(report_with({back, "train.non_finite.policy=ignore"}),
             contains_text("/checkpoint/on_spike: rolls back on non-finite updates, but "
                           "train.non_finite.policy is \"ignore\" [recipe.contradiction]"));
}

TEST_CASE("a rule waits for a value of one of its keys that has a problem", "[recipe]") {
  const std::string text =
      report_with({"checkpoint.every_steps=often", "checkpoint.keep_every_steps=30"});
  CHECK_THAT(text, contains_text("/checkpoint/every_steps: wrong type"));
  CHECK_THAT(text, contains_text("1 error in"));
  CHECK_THAT(report_with({"checkpoint.every_steps=7", "checkpoint.keep_every_steps=30"}),
             contains_text("/checkpoint/keep_every_steps: keeps one checkpoint every 30 steps"));
}

TEST_CASE("keys that save memory of activations have an effect", "[recipe]") {
  CHECK_THAT(report_with({"train.recompute=[\"layers.*\", \"none\"]"}),
             contains_text("--set #1: /train/recompute: \"none\" stands beside other entries "
                           "[recipe.contradiction]\n    give the word alone, or patterns only"));
  CHECK(report_with({"train.recompute=[\"layers.*\", \"head\"]"}) == "no error");
  CHECK(report_with({"train.recompute=[\"selective\"]"}) == "no error");
  CHECK_THAT(report_with({"train.offload_folder=/tmp"}),
             contains_text("/train/offload_folder: the folder has no use"));
  CHECK_THAT(report_with({"train.offload_folder=/tmp",
                          "train.offload_activations=host",
                          "train.recompute=blocks"}),
             contains_text("/train/offload_folder: the folder has no use"));
  CHECK_THAT(report_with({"train.offload_activations=disk"}),
             contains_text("/train/offload_activations: only inputs of blocks that run again in "
                           "backward are moved, and no block does [recipe.contradiction]"));
  for (const char* const key : {"recompute=blocks", "recompute=[\"a*\"]", "tile=8"}) {
    INFO(key);
    CHECK(report_with({"train.offload_activations=disk",
                       "train.offload_folder=/tmp",
                       "train." + std::string(key)}) == "no error");
  }
}

TEST_CASE("updates in the backward contradict what needs all gradients", "[recipe]") {
  const auto backward = [](const std::string& set) {
    return report_with({"train.update_in_backward=true", "train.non_finite.policy=stop", set});
  };
  CHECK(backward("train.clip_grad_value=1") == "no error");
  CHECK_THAT(backward("train.clip_grad_norm=1"),
             contains_text("--set #1: /train/update_in_backward: /train/clip_grad_norm needs the "
                           "norm of all gradients before the first update"));
  CHECK_THAT(backward("train.non_finite.policy=skip"),
             contains_text("set the policy to \"stop\" or \"ignore\""));
  CHECK_THAT(backward("train.precision=fp16_autocast"), contains_text("use \"bf16_autocast\""));
  for (const char* const set : {"parallel.offload=true", "parallel.reshard_after_forward=true"}) {
    CHECK_THAT(backward(set), contains_text("/parallel shards parameters on a single rank"));
  }
  CHECK(backward("parallel.reshard_after_forward=false") == "no error");
  CHECK(report_with({"train.clip_grad_norm=1", "parallel.offload=true"}) == "no error");
}

TEST_CASE("training on new windows needs checkpoints and has no epochs", "[recipe]") {
  CHECK(report_with({"train.windows=new"}) == "no error");
  CHECK_THAT(report_with({"train.windows=new", "train.epochs=2"}),
             contains_text("--set #2: /train/epochs: no epoch ends if train.windows is \"new\""));
  CHECK_THAT(report_with({"train.windows=new", "checkpoint=null"}),
             contains_text("--set #1: /train/windows: \"new\" continues from a checkpoint "
                           "[recipe.contradiction]\n    add a section \"checkpoint\""));
  CHECK(report_with({"train.windows=3", "train.epochs=2", "checkpoint=null"}) == "no error");
}

TEST_CASE("stored outputs and shared parameters are of models without an optimizer", "[recipe]") {
  const auto reference = [](const std::string& keys) {
    return report_with({R"(models={"ref": {"type": "llama", "optimizer": false, )" + keys + "}}"});
  };
  const std::string load = R"("load": [{"from": "a"}], )";
  CHECK(reference(load + R"("outputs": "stored")") == "no error");
  CHECK_THAT(report_with({"model.outputs=stored"}),
             contains_text("/model/outputs: only outputs of a model with \"optimizer\": false "
                           "stay the same [recipe.contradiction]\n    remove the key"));
  CHECK(report_with({"model.outputs=computed"}) == "no error");
  CHECK_THAT(reference(R"("parameters_of": "main", "outputs": "stored")"),
             contains_text("/models/ref/outputs: a model with \"parameters_of\" takes no memory "
                           "for parameters of its own"));
  CHECK_THAT(reference(load + R"("outputs": "stored",
                 "parametrizations": [{"match": "*", "type": "lora"}])"),
             contains_text("outputs of a model with \"parametrizations\" cannot be stored"));
  CHECK(reference(R"("parameters_of": "main")") == "no error");
  CHECK(reference(R"("parameters_of": "other")") ==
        "--set #1: /models/ref/parameters_of: names 'other', expected the trained model 'main' "
        "[model.cannot_share]\n"
        "    name the trained model, or use \"load\"\n"
        "1 error in recipe.json; nothing was started");
}

TEST_CASE("the best parameters have no optimizer state and no data position", "[recipe]") {
  const auto load = [](const std::string& parts) {
    return report_with({R"(load=[{"from": "a", "which": "best", "parts": )" + parts + "}]"});
  };
  CHECK(load(R"(["parameters", "tables"])") == "no error");
  for (const char* const parts : {R"(["parameters", "optimizer"])", R"(["parameters", "data"])"}) {
    CHECK_THAT(load(parts),
               contains_text("/load/0/which: \"best\" has no optimizer state and no data position, "
                             "which belong to the last step [recipe.contradiction]"));
  }
}

TEST_CASE("a condition on keys is also a schema of objects", "[recipe]") {
  const KeySchema a = with_key("a", true);
  CHECK(a.dump() == R"({"required":["a"]})");
  CHECK(with_key("a/b", {{"const", 1}}).dump() ==
        R"({"required":["a"],"properties":{"a":{"required":["b"],)"
        R"("properties":{"b":{"const":1}}}}})");
  const KeySchema b = with_key("b", true);
  CHECK(negated(joined("allOf", negated(a), b)).dump() ==
        R"({"anyOf":[{"required":["a"]},{"not":{"required":["b"]}}]})");
  CHECK(joined("anyOf", a, nullptr).is_null());
  CHECK(negated(nullptr).is_null());
}

TEST_CASE("a condition holds for the recipes that its schema allows", "[recipe]") {
  using OfEval = When<EvalRecipe>;
  const Condition<EvalRecipe> condition =
      (OfEval::given("batches") || OfEval::set("keep_best")) &&
      !OfEval::is("at_start", &EvalRecipe::at_start, true, true);
  CHECK(Condition<EvalRecipe>([](const EvalRecipe&) { return true; }).schema.is_null());
  const nlohmann::json schema = nlohmann::json::parse(condition.schema.dump());
  const SchemaArbiter arbiter(schema, "the condition");
  int num_true = 0;
  for (const char* const text : {R"({})",
                                 R"({"batches": null})",
                                 R"({"batches": 3, "at_start": true})",
                                 R"({"batches": 3, "at_start": false})",
                                 R"({"keep_best": null})",
                                 R"({"keep_best": {}})",
                                 R"({"keep_best": {}, "at_start": true})"}) {
    INFO(text);
    const nlohmann::json value = nlohmann::json::parse(text);
    PlaceMap places;
    places.set("", {.origin = PlaceOrigin::kFile, .file = "r.json", .number = 1});
    BoundKeys keys(places, {});
    for (const auto& [key, child] : value.items()) {
      keys.add("/eval/" + key, child);
    }
    EvalRecipe eval;
    eval.at_start = value.value("at_start", false);
    ProblemList problems;
    arbiter.check(value, "", places, problems);
    const bool holds = condition.holds(eval, RuleKeys(keys, "/eval"));
    CHECK(holds == problems.empty());
    num_true += holds ? 1 : 0;
  }
  CHECK(num_true == 3);
}

}  // namespace tenon
