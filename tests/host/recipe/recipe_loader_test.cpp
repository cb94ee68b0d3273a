// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_loader.hpp"

#include <nlohmann/json.hpp>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Every key that this release takes, in the long form.
constexpr char kFullRecipe[] = R"({
  // comments are allowed
  "name": "example", "seed": 18446744073709551615, "deterministic": false,
  "threads": {"compute": 2},
  "plugins": {"need": ["org.tenon.llama >= 1.2", "com.example.mse", "org.tenon.text==0.1.0"],
              "lock": "require", "trust": "keys/trusted"},
  "models": {"policy": {"type": "llama", "options": {"dim": 64}, "inputs": {"ids": "input_ids"}, "frozen": ["embed*"]}},
  "data": {"batch_size": 16, "shuffle": false, "loader_threads": 2, "prefetch": 8, "last": "drop",
           "train": {"type": "text", "options": {"path": "kjv.txt", "tokenizer": {"type": "byte"}}},
           "eval": {"kjv": {"type": "text", "options": {
             "path": "$${x}.txt", "tokenizer": {"ref": "/data/train/options/tokenizer"}}}}},
  "losses": [{"name": "lm", "type": "cross_entropy", "weight": 0.5,
              "inputs": {"logits": "policy.logits"}},
             {"type": "com.example.mse/mse", "weight": 2}],
  "optimizer": {"type": "adamw", "options": {"lr": 3e-4},
                "groups": [{"match": "*.bias", "weight_decay": 0.0},
                           {"match": "embed*", "type": "sgd", "lr": 0.1}]},
  "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 20}},
  "hooks": [{"type": "early_stop", "options": {}},
            {"type": "event_trace", "options": {"path": "trace.jsonl"}}],
  "train": {"steps": 300, "epochs": 2, "windows": 5, "steps_per_window": 10, "total_steps": 300,
            "global_batch_size": 64, "normalize": "microbatch", "clip_grad_norm": 1.0,
            "clip_grad_value": 5, "precision": "fp64", "recompute": "blocks", "log_every": null,
            "exit_at_step": 100, "exit_after_steps": 50, "kill_switch": "stop",
            "tokens": 9000, "minutes": 2.5, "global_batch_tokens": null, "overfit_batch": true},
  "eval": {"every_steps": 100, "every_windows": null, "every_epochs": 1, "at_start": true,
           "at_end": false, "batches": 20},
  "parallel": {"replicate": 2, "shard": 4, "tensor": 3, "sequence_parallel": true, "context": 2,
               "context_by": "gather", "undeclared": "whole", "stage": 2, "reshard_after_forward": false,
               "unsharded": ["norm*"], "bucket_bytes": 1000, "gradient_dtype": "bf16",
               "offload": true, "start_timeout_seconds": 60, "timeout_seconds": 5.5,
               "interface": "eth0", "check_collectives": true, "share_memory": false, "check_replicas_every": 100},
  "sinks": []
})";

}  // namespace

TEST_CASE("a small recipe gets every default", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder, kSmallRecipe);
  CHECK(recipe.name == "recipe");  // of the file
  CHECK(recipe.file == (folder.path() / "recipe.json").string());
  CHECK(recipe.seed == 1);
  CHECK(recipe.deterministic);
  CHECK(recipe.compute_threads == 1);
  CHECK(recipe.needs.empty());
  CHECK(recipe.lock == LockUse::kWarn);
  CHECK(recipe.trust.empty());
  CHECK(recipe.model.name == "main");
  CHECK(recipe.model.inputs.empty());
  CHECK(recipe.model.use.type == "llama");
  CHECK(recipe.data.batch_size == 4);
  CHECK(recipe.data.shuffle);
  CHECK(recipe.data.loader_threads == 1);
  CHECK(recipe.data.prefetch == 4);
  CHECK(recipe.data.last == LastBatch::kShort);
  CHECK(recipe.data.train.use.type == "text");
  CHECK(recipe.data.eval.empty());
  REQUIRE(recipe.losses.size() == 1);
  CHECK(recipe.losses[0].name == "cross_entropy");
  CHECK(recipe.losses[0].weight == 1.0);
  CHECK(recipe.losses[0].use.pointer == "/loss");
  CHECK(recipe.optimizer.use.type == "adamw");
  CHECK(recipe.optimizer.groups.empty());
  CHECK_FALSE(recipe.lr_scheduler);
  CHECK(recipe.hooks.empty());
  CHECK(recipe.train.steps == 3);
  CHECK_FALSE(recipe.train.epochs);
  CHECK_FALSE(recipe.train.windows);
  CHECK_FALSE(recipe.train.steps_per_window);
  CHECK_FALSE(recipe.train.total_steps);
  CHECK_FALSE(recipe.train.global_batch_size);
  CHECK(recipe.train.gradient_accumulation == 1);
  CHECK(recipe.train.normalize == Normalize::kItems);
  CHECK_FALSE(recipe.train.clip_grad_norm);
  CHECK_FALSE(recipe.train.clip_grad_value);
  CHECK(recipe.train.precision == "fp32");
  CHECK(recipe.train.recompute == std::vector<std::string>{"none"});
  CHECK(recipe.train.log_every == 10);
  CHECK_FALSE(recipe.train.exit_at_step);
  CHECK_FALSE(recipe.train.exit_after_steps);
  CHECK(recipe.train.kill_switch.empty());
  CHECK(recipe.eval.every.steps == 0);
  CHECK_FALSE(recipe.eval.at_start);
  CHECK_FALSE(recipe.eval.at_end);  // there is nothing to evaluate on
  CHECK_FALSE(recipe.eval.batches);
  REQUIRE(recipe.sinks.size() == 1);
  CHECK(recipe.sinks[0].kind == "metric_sink");
  CHECK(recipe.sinks[0].type == "jsonl");
}

TEST_CASE("a whole recipe is read key by key", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder, kFullRecipe);
  CHECK(recipe.name == "example");
  CHECK(recipe.seed == 18446744073709551615U);
  CHECK_FALSE(recipe.deterministic);
  CHECK(recipe.compute_threads == 2);
  REQUIRE(recipe.needs.size() == 3);
  CHECK(recipe.needs[0].id == "org.tenon.llama");
  CHECK(recipe.needs[0].relation == ">=");
  CHECK(recipe.needs[0].version == "1.2");
  CHECK(recipe.needs[1].id == "com.example.mse");
  CHECK(recipe.needs[1].relation.empty());
  CHECK(recipe.needs[2].id == "org.tenon.text");
  CHECK(recipe.needs[2].relation == "==");
  CHECK(recipe.needs[2].version == "0.1.0");
  CHECK(recipe.lock == LockUse::kRequire);
  CHECK(recipe.trust == (folder.path() / "keys/trusted").string());
  CHECK(recipe.model.name == "policy");
  CHECK(recipe.model.inputs == InputMap{{"ids", "input_ids"}});
  CHECK(recipe.model.use.pointer == "/models/policy");
  CHECK(recipe.data.batch_size == 16);
  CHECK_FALSE(recipe.data.shuffle);
  CHECK(recipe.data.loader_threads == 2);
  CHECK(recipe.data.prefetch == 8);
  CHECK(recipe.data.last == LastBatch::kDrop);
  REQUIRE(recipe.data.eval.size() == 1);
  CHECK(recipe.data.eval[0].name == "kjv");
  CHECK(recipe.data.eval[0].data.use.pointer == "/data/eval/kjv");
  REQUIRE(recipe.losses.size() == 2);
  CHECK(recipe.losses[0].name == "lm");
  CHECK(recipe.losses[0].weight == 0.5);
  CHECK(recipe.losses[0].inputs == InputMap{{"logits", "policy.logits"}});
  CHECK(recipe.losses[1].name == "mse");
  CHECK(recipe.losses[1].use.plugin_id == "com.example.mse");
  CHECK(recipe.optimizer.groups.size() == 2);
  REQUIRE(recipe.lr_scheduler);
  CHECK(recipe.lr_scheduler->options == R"({"warmup_steps":20})");
  REQUIRE(recipe.hooks.size() == 2);
  CHECK(recipe.hooks[1].pointer == "/hooks/1");
  CHECK(recipe.train.steps == 300);
  CHECK(recipe.train.epochs == 2);
  CHECK(recipe.train.num_windows() == 5);
  CHECK(recipe.train.tokens == 9000);
  CHECK(recipe.train.minutes == 2.5);
  CHECK(recipe.train.overfit_batch);
  CHECK(recipe.train.steps_per_window == 10);
  CHECK(recipe.train.total_steps == 300);
  CHECK(recipe.train.global_batch_size == 64);
  CHECK(microbatches_per_step(recipe, 1) == 4);
  CHECK(recipe.train.normalize == Normalize::kMicrobatch);
  CHECK(recipe.train.clip_grad_norm == 1.0);
  CHECK(recipe.train.clip_grad_value == 5.0);
  CHECK(recipe.train.precision == "fp64");
  CHECK(recipe.train.recompute == std::vector<std::string>{"blocks"});
  CHECK(recipe.train.log_every == 0);
  CHECK(recipe.train.exit_at_step == 100);
  CHECK(recipe.train.exit_after_steps == 50);
  CHECK(recipe.train.kill_switch == (folder.path() / "stop").string());
  CHECK(recipe.eval.every.steps == 100);
  CHECK(recipe.eval.every.windows == 0);
  CHECK(recipe.eval.every.epochs == 1);
  CHECK(recipe.eval.at_start);
  CHECK_FALSE(recipe.eval.at_end);
  CHECK(recipe.eval.batches == 20);
  CHECK(recipe.model.frozen == std::vector<std::string>{"embed*"});
  CHECK(recipe.parallel.replicate == 2);
  CHECK(recipe.parallel.shard == 4);
  CHECK(recipe.parallel.stage == 2);
  CHECK(recipe.parallel.tensor == 3);
  CHECK(recipe.parallel.sequence_parallel);
  CHECK(recipe.parallel.context == 2);
  CHECK(recipe.parallel.context_by == ContextExchange::kGather);
  CHECK(recipe.parallel.undeclared == UndeclaredBlocks::kWhole);
  CHECK(recipe.parallel.reshard_after_forward == false);
  CHECK(recipe.parallel.unsharded == std::vector<std::string>{"norm*"});
  CHECK(recipe.parallel.bucket_bytes == 1000);
  CHECK(recipe.parallel.gradient_dtype == GradientDtype::kBf16);
  CHECK(recipe.parallel.offload);
  CHECK(recipe.parallel.start_timeout_seconds == 60);
  CHECK(recipe.parallel.timeout_seconds == 5.5);
  CHECK(recipe.parallel.interface == "eth0");
  CHECK(recipe.parallel.check_collectives);
  CHECK_FALSE(recipe.parallel.share_memory);
  CHECK(recipe.parallel.check_replicas_every == 100);
  CHECK(recipe.sinks.empty());
}

TEST_CASE("packing has defaults, for one dataset and for a mix", "[recipe]") {
  const ScratchFolder folder;
  const Recipe one = load_text(folder, kSmallRecipe, {R"(data.train.packing={"length": 128})"});
  REQUIRE(one.data.train.packing);
  CHECK(one.data.train.packing->length == 128);
  CHECK(one.data.train.packing->strategy == PackingStrategy::kBestFit);
  CHECK(one.data.train.packing->group == 16384);
  CHECK(one.data.train.packing->over_long == OverLongSamples::kError);
  CHECK(frozen_recipe(one).find("\"strategy\": \"best_fit\"") != std::string::npos);
  const Recipe mix = load_text(folder, kSmallRecipe, {R"(data.train={
      "mix": [{"type": "numbers", "weight": 1}],
      "packing": {"length": 64, "strategy": "greedy", "group": 7, "over_long": "split"}})"});
  REQUIRE(mix.data.train.packing);
  CHECK(mix.data.train.packing->strategy == PackingStrategy::kGreedy);
  CHECK(mix.data.train.packing->group == 7);
  CHECK(mix.data.train.packing->over_long == OverLongSamples::kSplit);
  CHECK_FALSE(load_text(folder, kSmallRecipe, {}).data.train.packing);
  CHECK(frozen_recipe(load_text(folder, kSmallRecipe, {})).find("packing") == std::string::npos);
  CHECK_THAT(report_of(kSmallRecipe, {R"(data.train.packing={"strategy": "greedy"})"}),
             contains_text("/data/train/packing/length: missing key"));
}

TEST_CASE("a frozen recipe, read again, gives the same text and the same recipe", "[recipe]") {
  const ScratchFolder folder;
  const ScratchFolder elsewhere;
  for (const char* const text : {kSmallRecipe, kFullRecipe}) {
    for (const std::vector<std::string>& sets :
         {std::vector<std::string>{},
          {"model.options.dim=32", "data.train.options.path=x.txt"},
          {R"(loss={"type": "cross_entropy", "inputs": {"logits": "main.logits"}})"},
          {R"(optimizer.groups=[{"match": "*", "type": "sgd", "lr": 1}, {"match": "b", "lr": 2}])"},
          {"train.global_batch_size=32", "threads.compute=7"}}) {
      // The full recipe has its model and losses in the long form.
      const bool fits = text == kSmallRecipe || sets.empty() || sets[0].starts_with("optimizer") ||
                        sets[0].starts_with("train");
      if (!fits) {
        continue;
      }
      const Recipe first = load_text(folder, text, sets);
      // Another folder: paths are absolute, so the place of the text no longer matters.
      const Recipe second = load_text(elsewhere, frozen_recipe(first));
      CHECK(frozen_recipe(second) == frozen_recipe(first));
      CHECK(second.name == first.name);
      CHECK(second.data.train.use.options == first.data.train.use.options);
      CHECK(second.optimizer.use.options == first.optimizer.use.options);
      REQUIRE(second.optimizer.groups.size() == first.optimizer.groups.size());
      for (std::size_t i = 0; i < first.optimizer.groups.size(); ++i) {
        CHECK(second.optimizer.groups[i].use.options == first.optimizer.groups[i].use.options);
      }
      CHECK(microbatches_per_step(second, 1) == microbatches_per_step(first, 1));
      CHECK(second.eval.at_end == first.eval.at_end);
    }
  }
}

TEST_CASE("the frozen recipe is in the long form and has every default", "[recipe]") {
  const ScratchFolder folder;
  const json frozen = json::parse(frozen_recipe(load_text(folder, kSmallRecipe)));
  CHECK_FALSE(frozen.contains("model"));
  CHECK_FALSE(frozen.contains("loss"));
  CHECK(frozen["parallel"]["shard"] == -1);
  CHECK(frozen["parallel"]["stage"] == 3);
  CHECK(frozen["models"]["main"]["options"]["heads"] == 4);
  CHECK(frozen["losses"][0]["name"] == "cross_entropy");
  CHECK(frozen["sinks"] == json::parse(R"([{"type": "jsonl", "options": {}}])"));
  CHECK(frozen["threads"]["compute"] == 1);
  CHECK(frozen["train"]["gradient_accumulation"] == 1);
  CHECK(frozen["data"]["train"]["options"]["path"] == (folder.path() / "kjv.txt").string());
  CHECK(frozen_recipe(load_text(folder, kSmallRecipe)).find("{\n  \"name\": \"recipe\",\n") == 0);
}

TEST_CASE("the frozen recipe has its keys in the order in which the sections bind them",
          "[recipe]") {
  using nlohmann::ordered_json;
  const ScratchFolder folder;
  const ordered_json frozen = ordered_json::parse(
      frozen_recipe(load_text(folder,
                              kSmallRecipe,
                              {"checkpoint={\"every_steps\": 1}",
                               R"(load=[{"from": "/runs/a"}])",
                               R"(tables={"user": {"evict": {"max_rows": 1}, "dim": 8}})"})));
  const auto keys = [&frozen](const std::string& pointer) {
    std::string text;
    for (const auto& [key, value] : frozen.at(ordered_json::json_pointer(pointer)).items()) {
      text += key + " ";
    }
    return text;
  };
  CHECK(keys("") ==
        "name seed deterministic device kernels threads plugins models data features tables losses "
        "metrics "
        "optimizer lr_scheduler hooks train eval checkpoint load parallel sinks ");
  CHECK(keys("/plugins") == "need timeout_seconds lock trust ");
  CHECK(keys("/data") ==
        "batch_size shuffle loader_threads prefetch last on_change timeout_seconds train eval "
        "test skip_windows ");
  CHECK(keys("/tables/user") == "dim evict ");
  CHECK(keys("/tables/user/evict") == "unseen_steps min_count max_rows policy ");
  CHECK(keys("/train").starts_with("steps epochs windows tokens minutes steps_per_window "));
  CHECK(keys("/load/0") ==
        "from parts match exclude rename resize may_differ strict which layout every_steps "
        "every_windows every_epochs ");
  CHECK(keys("/losses/0") == "name type options weight inputs ");
}

TEST_CASE("null where 0 is meant is frozen as 0", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder,
                                  kSmallRecipe,
                                  {"parallel.check_replicas_every=null",
                                   "train.log_every=null",
                                   "checkpoint={\"keep_every_steps\": null}"});
  CHECK(recipe.parallel.check_replicas_every == 0);
  const json frozen = json::parse(frozen_recipe(recipe));
  CHECK(frozen["parallel"]["check_replicas_every"] == 0);
  CHECK(frozen["train"]["log_every"] == 0);
  CHECK(frozen["checkpoint"]["keep_every_steps"] == 0);
}

TEST_CASE("a mix is read with its names, weights and options", "[recipe]") {
  const std::string mix = R"({"mix": [
    {"name": "web", "weight": 0.7, "type": "text", "options": {"path": "web.txt"}},
    {"weight": 3, "type": "numbers"},
    {"weight": 0, "type": "text",
     "options": {"path": "off.txt",
                 "tokenizer": {"ref": "/data/train/mix/0/options/tokenizer"}}}],
    "when_one_ends": "stop"})";
  const ScratchFolder folder;
  const Recipe recipe =
      load_text(folder,
                kSmallRecipe,
                {"data.train=" + mix, "data.train.mix.0.options.tokenizer={\"type\": \"byte\"}"});
  const DatasetUse& train = recipe.data.train;
  REQUIRE(train.mix.size() == 3);
  CHECK(train.use.type.empty());
  CHECK(train.when_one_ends == WhenSourceEnds::kStop);
  CHECK(train.mix[0].name == "web");
  CHECK(train.mix[0].weight == 0.7);
  CHECK(train.mix[0].use.type == "text");
  CHECK(train.mix[0].use.pointer == "/data/train/mix/0");
  CHECK(train.mix[1].name == "numbers-2");
  CHECK(train.mix[1].weight == 3);
  CHECK(train.mix[2].name == "text-3");
  CHECK(train.mix[2].use.nested.at(0).use.ref == "/data/train/mix/0/options/tokenizer");
  const json frozen = json::parse(frozen_recipe(recipe));
  CHECK_FALSE(frozen["data"]["train"].contains("options"));
  CHECK(frozen["data"]["train"]["mix"][1] ==
        json::parse(R"({"name": "numbers-2", "type": "numbers", "weight": 3, "options": {}})"));
  const std::string text = frozen_recipe(recipe);
  CHECK(frozen_recipe(load_text(folder, text)) == text);
}

TEST_CASE("sets to evaluate on may be mixes too", "[recipe]") {
  const ScratchFolder folder;
  const std::string mix = R"({"mix": [{"weight": 1, "type": "numbers"}]})";
  const Recipe one = load_text(folder, kSmallRecipe, {"data.eval=" + mix});
  REQUIRE(one.data.eval.size() == 1);
  CHECK(one.data.eval[0].name.empty());
  REQUIRE(one.data.eval[0].data.mix.size() == 1);
  CHECK(one.data.eval[0].data.when_one_ends == WhenSourceEnds::kRepeat);
  const Recipe named = load_text(
      folder, kSmallRecipe, {"data.eval={\"a\": {\"type\": \"numbers\"}, \"b\": " + mix + "}"});
  REQUIRE(named.data.eval.size() == 2);
  CHECK(named.data.eval[0].data.mix.empty());
  CHECK(named.data.eval[1].data.mix.at(0).use.pointer == "/data/eval/b/mix/0");
}

TEST_CASE("references in the frozen recipe follow its long form", "[recipe]") {
  // A fake model with a tokenizer, so that a reference leads into what the short form moves.
  const ScratchFolder folder;
  FakeCatalog catalog;
  catalog.add("model", "talker", {"org.x", "x.so", R"({"properties": {
    "tokenizer": {"x-tenon-component": "tokenizer"}}})"});
  const std::vector<std::string> sets = {
      R"(model={"type": "talker", "options": {"tokenizer": {"type": "byte"}}})",
      R"(data.train.options.tokenizer={"ref": "/model/options/tokenizer"})"};
  const std::string path = folder.write("a.json", kSmallRecipe).string();
  const Recipe first = load_recipe({.path = path, .sets = sets}, catalog);
  CHECK(first.data.train.use.nested.at(0).use.ref == "/model/options/tokenizer");
  const json frozen = json::parse(frozen_recipe(first));
  CHECK(frozen["data"]["train"]["options"]["tokenizer"]["ref"] == "/models/main/options/tokenizer");
  const std::string again = folder.write("b.json", frozen_recipe(first)).string();
  CHECK(frozen_recipe(load_recipe({.path = again}, catalog)) == frozen_recipe(first));
}

TEST_CASE("all errors of a recipe are reported at once, in the order of reading", "[recipe]") {
  CHECK(report_of(R"({
  "model": {"type": "lama"},
  "data": {
    "batch_size": "4",
    "train": {"type": "text", "options": {"path": "kjv.txt", "tokenizer": {"type": "byte"}, "rnage": 1}}
  },
  "loss": {"type": "mse"},
  "optimizer": {"type": "adamw", "options": {"lr": -1, "betas": [0.9]}},
  "train": {"stpes": 3},
  "checkpoint": {"every_steps": 5, "exports": [{"format": "gguf", "at_end": true}]}
})",
                  {"hooks.0.type=early_stop", "hooks[0].options.patience=0"}) ==
        R"(recipe.json:2: /model/type: unknown type of model [recipe.unknown_type]
    expected one of: llama, mlp
    found: "lama"; did you mean "llama"?
    plugins were searched in: build/plugins, /opt/plugins
recipe.json:4: /data/batch_size: wrong type [recipe.wrong_type]
    expected integer from 1 to 1000000000
    found: string "4"
recipe.json:5: /data/train/options/rnage: unknown key [recipe.unknown_key]
    expected one of: more, path, range, tokenizer
    found: "rnage"; did you mean "range"?
recipe.json:7: /loss/type: 2 plugins offer this loss [recipe.ambiguous_type]
    found: "mse" in org.tenon.losses (build/plugins/losses.so) and com.example.mse (/opt/plugins/mse.so)
    write "org.tenon.losses/mse" or "com.example.mse/mse"
recipe.json:8: /optimizer/options/betas: wrong number of entries [recipe.out_of_range]
    expected list of 2 entries, each number of at least 0 and below 1
    found: 1 entry
recipe.json:8: /optimizer/options/lr: out of range [recipe.out_of_range]
    expected number above 0
    found: -1
recipe.json:9: /train/stpes: unknown key [recipe.unknown_key]
    expected one of: clip_grad_norm, clip_grad_value, epochs, exit_after_steps, exit_at_step, global_batch_size, global_batch_tokens, gradient_accumulation, kill_switch, log_every, loss_by_source, loss_chunk, ... (28 in all)
    found: "stpes"; did you mean "steps"?
recipe.json:10: /checkpoint/exports/0/format: not an allowed value [recipe.bad_value]
    expected one of: "weights", "hf"
    found: "gguf"
--set #2: /hooks/0/options/patience: out of range [recipe.out_of_range]
    expected integer of at least 1
    found: 0
9 errors in recipe.json; nothing was started)");
}

TEST_CASE("a section asks for checkpoints, null for none, and without it one is saved",
          "[recipe]") {
  const ScratchFolder folder;
  const Recipe absent = load_text(folder, kSmallRecipe, {});
  REQUIRE(absent.checkpoint);  // saves once, at the end, without a copy of the state
  CHECK(absent.checkpoint->at_end);
  CHECK(absent.checkpoint->on_signal);
  CHECK(absent.checkpoint->keep_last == 1);
  CHECK(absent.checkpoint->staging == CheckpointStaging::kStream);
  CHECK_FALSE(load_text(folder, kSmallRecipe, {"checkpoint=null"}).checkpoint);
  const Recipe brief = load_text(folder, kSmallRecipe, {"checkpoint={}"});
  REQUIRE(brief.checkpoint);
  CHECK(brief.checkpoint->every.steps == 0);
  CHECK_FALSE(brief.checkpoint->every_minutes);
  CHECK_FALSE(brief.checkpoint->at_start);
  CHECK(brief.checkpoint->at_end);
  CHECK(brief.checkpoint->on_signal);
  CHECK(brief.checkpoint->grace_seconds == 60);
  CHECK(brief.checkpoint->staging == CheckpointStaging::kCopy);
  CHECK(brief.checkpoint->retries == 2);
  CHECK(brief.checkpoint->on_failure == OnSaveFailure::kContinue);
  CHECK(brief.checkpoint->keep_last == 3);
  CHECK(brief.checkpoint->keep_every_steps == 0);
  CHECK_FALSE(brief.checkpoint->keep_best);
  CHECK_FALSE(brief.checkpoint->storage);
  const Recipe full = load_text(folder,
                                kSmallRecipe,
                                {"data.eval={\"type\": \"numbers\"}",
                                 "eval.every_steps=5",
                                 R"(checkpoint={"every_steps": 5, "every_windows": 2,
      "every_epochs": null, "every_minutes": 1.5, "at_start": true, "at_end": false,
      "on_signal": false, "grace_seconds": 2.5, "staging": "stream", "retries": 0,
      "on_failure": "stop", "keep_last": 1, "keep_every_steps": 10,
      "keep_best": {"metric": "eval/loss", "mode": "max", "count": 4}, "exclude": ["embed.*", "users"],
      "exports": [{"format": "hf", "every_steps": null, "at_end": true},
                  {"format": "weights", "every_steps": 7, "every_windows": 2, "every_epochs": 1,
                   "keep_last": 0}],
      "storage": {"type": "s3", "options": {"uri": "s3://runs"}}})"});
  REQUIRE(full.checkpoint);
  const CheckpointRecipe& asked = *full.checkpoint;
  CHECK(asked.every.steps == 5);
  CHECK(asked.every.windows == 2);
  CHECK(asked.every.epochs == 0);
  CHECK(asked.every_minutes == 1.5);
  CHECK(asked.at_start);
  CHECK_FALSE(asked.at_end);
  CHECK_FALSE(asked.on_signal);
  CHECK(asked.grace_seconds == 2.5);
  CHECK(asked.staging == CheckpointStaging::kStream);
  CHECK(asked.retries == 0);
  CHECK(asked.on_failure == OnSaveFailure::kStop);
  CHECK(asked.keep_last == 1);
  CHECK(asked.keep_every_steps == 10);
  REQUIRE(asked.keep_best);
  CHECK(asked.keep_best->metric == "eval/loss");
  CHECK(asked.keep_best->is_max);
  CHECK(asked.keep_best->count == 4);
  CHECK(asked.exclude == std::vector<std::string>{"embed.*", "users"});
  REQUIRE(asked.exports.size() == 2);
  CHECK(asked.exports[0].format == ExportFormat::kHf);
  CHECK(asked.exports[0].every.steps == 0);
  CHECK(asked.exports[0].at_end);
  CHECK(asked.exports[0].keep_last == 3);
  CHECK(asked.exports[1].format == ExportFormat::kWeights);
  CHECK(asked.exports[1].every.steps == 7);
  CHECK(asked.exports[1].every.windows == 2);
  CHECK(asked.exports[1].every.epochs == 1);
  CHECK_FALSE(asked.exports[1].at_end);
  CHECK(asked.exports[1].keep_last == 0);
  REQUIRE(asked.storage);
  CHECK(asked.storage->kind == "storage");
  CHECK(asked.storage->plugin_id == "org.tenon.s3");
  CHECK_THAT(asked.storage->options, contains_text("\"attempts\":8"));
  // Read again, the frozen recipe is the same.
  const std::string frozen = folder.write("again.json", frozen_recipe(full)).string();
  CHECK(frozen_recipe(load_recipe({.path = frozen}, FakeCatalog())) == frozen_recipe(full));
}

TEST_CASE("a storage of checkpoints is a component like any other", "[recipe]") {
  CHECK_THAT(report_of(kSmallRecipe, {"checkpoint.storage={\"type\": \"s4\"}"}),
             contains_text("/checkpoint/storage/type: unknown type of storage"));
  CHECK_THAT(report_of(kSmallRecipe, {"checkpoint.storage={\"type\": \"s3\"}"}),
             contains_text("/checkpoint/storage/options"));
  CHECK_THAT(report_of(kSmallRecipe, {"checkpoint.storage={}"}),
             contains_text("/checkpoint/storage"));
}

TEST_CASE("each part that this release lacks is refused by name", "[recipe]") {
  for (const auto& [set, what] : std::vector<std::pair<std::string, std::string>>{
           {"parallel.expert=2", "/parallel/expert: this release does not have expert"},
           {"model.load=[{\"from\": \"x\"}]",
            "/model/load: this release does not have loading by model"}}) {
    const std::string report = report_of(kSmallRecipe, {set});
    INFO(set);
    CHECK_THAT(report, contains_text("--set #1: " + what));
    CHECK_THAT(report, contains_text("[recipe.not_available]"));
    CHECK_THAT(report, contains_text("1 error in"));
  }
}

TEST_CASE("what a run begins with is a list of loads, each with its sources", "[recipe]") {
  const ScratchFolder folder;
  CHECK(load_text(folder, kSmallRecipe, {}).load.empty());
  const Recipe brief = load_text(folder, kSmallRecipe, {R"(load=[{"from": "/runs/a"}])"});
  REQUIRE(brief.load.size() == 1);
  const LoadRecipe& first = brief.load[0];
  REQUIRE(first.from.size() == 1);
  CHECK(first.from[0].path == "/runs/a");
  CHECK_FALSE(first.from[0].storage);
  CHECK(first.pointer == "/load/0");
  CHECK((first.has_parameters && first.has_tables));
  CHECK_FALSE(first.has_optimizer);
  CHECK_FALSE(first.has_data);
  CHECK(first.match == std::vector<std::string>{"*"});
  CHECK(first.exclude.empty());
  CHECK(first.rename.empty());
  CHECK(first.is_strict);
  CHECK(first.layout == LoadLayout::kAuto);
  CHECK(first.every.steps == 0);

  const std::string written = R"("load": [
      {"from": {"path": "mine/checkpoints", "storage": {"type": "s3", "options": {"uri": "s3://runs"}}}},
      {"from": ["runs/a", "/runs/b", {"path": "c", "storage": {"type": "s3", "options": {"uri": "s3://x"}}}],
       "parts": ["optimizer", "data"], "match": ["model.*"], "exclude": ["*.bias"],
       "rename": [{"from": "bert.*", "to": "model.*"}], "strict": false, "layout": "hf"},
      {"from": "/runs/c", "every_steps": 5, "every_windows": null, "every_epochs": 2}], )";
  std::string text = kSmallRecipe;
  text.insert(text.find('{') + 1, written);
  const Recipe full = load_text(folder, text.c_str(), {});
  REQUIRE(full.load.size() == 3);
  CHECK(full.load[0].from[0].path == "mine/checkpoints");  // the storage's own words
  CHECK(full.load[0].from[0].storage->type == "s3");
  const LoadRecipe& second = full.load[1];
  REQUIRE(second.from.size() == 3);
  CHECK(second.from[0].path == (folder.path() / "runs/a").string());
  CHECK(second.from[2].storage->options == R"({"attempts":8,"uri":"s3://x"})");
  CHECK_FALSE(second.has_parameters);
  CHECK((second.has_optimizer && second.has_data));
  CHECK(second.rename[0].to == "model.*");
  CHECK_FALSE(second.is_strict);
  CHECK(second.layout == LoadLayout::kHf);
  CHECK(full.load[2].every.steps == 5);
  CHECK(full.load[2].every.windows == 0);
  CHECK(full.load[2].every.epochs == 2);
  const std::string frozen = folder.write("again.json", frozen_recipe(full)).string();
  CHECK(frozen_recipe(load_recipe({.path = frozen}, FakeCatalog())) == frozen_recipe(full));
}

TEST_CASE("mistakes in what is loaded are told with their places", "[recipe]") {
  for (const auto& [set, what] : std::vector<std::pair<std::string, std::string>>{
           {R"(load=["runs/a"])", "/load/0: wrong type"},
           {R"(load=[{}])", "/load/0/from: missing key"},
           {R"(load=[{"from": []}])", "/load/0/from"},
           {R"(load=[{"from": 3}])", "/load/0/from: wrong type"},
           {R"(load=[{"from": {"path": "a"}}])", "/load/0/from/storage: missing key"},
           {R"(load=[{"from": {"path": "a", "storage": {"type": "s4"}}}])",
            "/load/0/from/storage/type: unknown type of storage"},
           {R"(load=[{"from": ["a", {"path": "a", "storage": {"type": "s3"}}]}])",
            "/load/0/from/1/storage/options"},
           {R"(load=[{"from": "a", "parts": ["slots"]}])", "/load/0/parts/0"},
           {R"(load=[{"from": "a", "parts": []}])", "/load/0/parts"},
           {R"(load=[{"from": "a", "every_step": 1}])", "/load/0/every_step: unknown key"},
           {R"(load=[{"from": "a", "parts": ["data"], "every_steps": 2}])",
            "/load/0/every_steps: reloads the data position"},
           {R"(load=[{"from": "a", "parts": ["data"], "match": ["x"]}])",
            "/load/0/match: has no effect"},
           {R"(load=[{"from": "a", "rename": [{"from": "a.*", "to": "b"}]}])",
            "/load/0/rename/0/to: has a different number of '*'"}}) {
    INFO(set);
    CHECK_THAT(report_of(kSmallRecipe, {set}), contains_text("--set #1: " + what));
  }
  CHECK_THAT(report_of(kSmallRecipe, {"model.load=[\"x\"]"}),
             contains_text("use the recipe's section \"load\" to initialize"));
}

TEST_CASE("features are read with their steps, in order", "[recipe]") {
  const ScratchFolder folder;
  const std::string path = folder.write("recipe.json", kSmallRecipe).string();
  const std::string set = R"(features=[
      {"name": "user", "from": "user_id", "do": [{"type": "hash"}, {"type": "mod", "options": {"buckets": 9}}]},
      {"name": "both", "from": ["user", "age"], "do": [{"type": "hash", "options": {"function": "murmur64"}}]}])";
  const Recipe recipe = load_recipe({.path = path, .sets = {set}}, FakeCatalog());
  REQUIRE(recipe.features.size() == 2);
  CHECK(recipe.features[0].name == "user");
  CHECK(recipe.features[0].from == std::vector<std::string>{"user_id"});
  REQUIRE(recipe.features[0].steps.size() == 2);
  CHECK(recipe.features[0].steps[0].kind == "feature");
  CHECK(recipe.features[0].steps[0].plugin_id == "org.tenon.hash");
  CHECK(recipe.features[0].steps[0].options == R"({"function":"farm"})");
  CHECK(recipe.features[0].steps[1].pointer == "/features/0/do/1");
  CHECK(recipe.features[1].from == std::vector<std::string>{"user", "age"});
  // Read again, the frozen recipe is the same.
  const std::string frozen = folder.write("frozen.json", frozen_recipe(recipe)).string();
  const Recipe again = load_recipe({.path = frozen}, FakeCatalog());
  CHECK(frozen_recipe(again) == frozen_recipe(recipe));
  CHECK(again.features[1].steps[0].options == R"({"function":"murmur64"})");
}

TEST_CASE("mistakes in features are told with their places", "[recipe]") {
  const auto report = [](const std::string& features) {
    return report_of(kSmallRecipe, {"features=" + features});
  };
  CHECK_THAT(report(R"([{"name": "user"}])"),
             contains_text("/features/0/from: missing key [recipe.missing_key]"));
  CHECK_THAT(report(R"([{"name": "user", "from": "id", "do": []}])"),
             contains_text("/features/0/do: wrong number of entries [recipe.out_of_range]"));
  CHECK_THAT(report(R"([{"name": "user", "from": [], "do": [{"type": "hash"}]}])"),
             contains_text("/features/0/from: wrong number of entries [recipe.out_of_range]"));
  CHECK_THAT(report(R"([{"name": "user.x", "from": "id", "do": [{"type": "hash"}]}])"),
             contains_text("/features/0/name: "));
  const std::string misspelt =
      report(R"([{"name": "user", "form": "id", "do": [{"type": "hahs"}]}])");
  CHECK_THAT(misspelt, contains_text("did you mean \"from\"?"));
  CHECK_THAT(misspelt, contains_text("/features/0/do/0/type: unknown type of feature"));
  CHECK_THAT(misspelt, contains_text("did you mean \"hash\"?"));
  CHECK_THAT(
      report(
          R"([{"name": "user", "from": "id", "do": [{"type": "mod", "options": {"buckets": 0}}]}])"),
      contains_text("/features/0/do/0/options/buckets: out of range"));
  CHECK_THAT(
      report(R"([{"name": "u", "from": "id", "do": [{"type": "hash"}]},
                        {"name": "u", "from": "age", "do": [{"type": "hash"}]}])"),
      contains_text("/features/1/name: a second feature named \"u\" [recipe.duplicate_name]"));
}

TEST_CASE("a recipe that is no object is an error", "[recipe]") {
  CHECK_THAT(report_of("[1, 2]"), contains_text("recipe.json:1: wrong type [recipe.wrong_type]"));
  CHECK_THAT(report_of("null"), contains_text("found: null null"));
}

TEST_CASE("an empty recipe lists what it needs", "[recipe]") {
  const std::string report = report_of("{}");
  for (const char* const key : {"/data", "/optimizer", "/train", "/model", "/loss"}) {
    CHECK_THAT(report, contains_text(std::string(key) + ": missing key [recipe.missing_key]"));
  }
  CHECK_THAT(report, contains_text("5 errors in recipe.json"));
}

TEST_CASE("values of the wrong type everywhere are each an error", "[recipe]") {
  const std::string report = report_of(R"({"model": 1, "data": 2, "loss": 3, "optimizer": 4,
    "train": 5, "eval": 6, "sinks": 7, "hooks": 8, "lr_scheduler": 9, "name": 10, "threads": 11,
    "plugins": 12, "seed": "13", "deterministic": 14})");
  CHECK_THAT(report, contains_text("14 errors in recipe.json"));
}

TEST_CASE("a named and an unnamed dataset to evaluate on are checked alike", "[recipe]") {
  CHECK_THAT(report_of(kSmallRecipe, {"data.eval={\"tpye\": \"numbers\"}"}),
             contains_text("/data/eval/type: missing key"));
  CHECK_THAT(report_of(kSmallRecipe, {"data.eval={\"kjv\": {\"tpye\": \"numbers\"}}"}),
             contains_text("/data/eval/kjv/tpye: unknown key"));
  CHECK_THAT(report_of(kSmallRecipe, {"data.eval={}"}),
             contains_text("/data/eval/type: missing key"));
}

TEST_CASE("the environment fills strings, with the place of the string", "[recipe]") {
  const ScratchFolder folder;
  std::string text = kSmallRecipe;
  text.replace(text.find("kjv.txt"), 7, "${ENV:WHERE}/kjv.txt");
  const std::string path = folder.write("recipe.json", text).string();
  const auto environment = [](const std::string& name) {
    return name == "WHERE" ? std::optional<std::string>("sub") : std::nullopt;
  };
  const Recipe recipe = load_recipe({.path = path, .environment = environment}, FakeCatalog());
  CHECK(json::parse(recipe.data.train.use.options)["path"] ==
        folder.path().string() + "/sub/kjv.txt");
  try {
    (void)load_recipe({.path = path,
                       .sets = {"seed=${ENV:WHERE}", "name=${ENV:NOPE}/iris"},
                       .environment = environment},
                      FakeCatalog());
    FAIL("no error");
  } catch (const RecipeErrors& errors) {
    CHECK_THAT(errors.report(),
               contains_text("--set #1 via ${ENV:WHERE}: /seed: wrong type [recipe.wrong_type]"));
    CHECK_THAT(errors.report(),
               contains_text("/name: the environment variable NOPE is not set [recipe.env_unset]"));
    CHECK_THAT(errors.report(),
               contains_text("\"${ENV:NOPE}/iris\"") && !contains_text("${ENV:NOPE}${ENV:NOPE}"));
  }
}

TEST_CASE("a frozen recipe has its variables unexpanded", "[recipe]") {
  const ScratchFolder folder;
  std::string text = kSmallRecipe;
  text.replace(text.find("kjv.txt"), 7, "$${a}/${ENV:WHERE}/kjv.txt");
  const std::string path = folder.write("recipe.json", text).string();
  const auto environment = [](const std::string& name) {
    return name == "WHERE" ? std::optional<std::string>("sub") : std::nullopt;
  };
  const Recipe recipe = load_recipe({.path = path, .environment = environment}, FakeCatalog());
  const json frozen = json::parse(frozen_recipe(recipe));
  CHECK(frozen["data"]["train"]["options"]["path"] ==
        folder.path().string() + "/$${a}/${ENV:WHERE}/kjv.txt");
  CHECK(frozen["environment"] == json({{"WHERE", value_fingerprint("sub")}}));

  const std::string again = folder.write("other/b.json", frozen_recipe(recipe)).string();
  const Recipe second = load_recipe({.path = again, .environment = environment}, FakeCatalog());
  CHECK(second.data.train.use.options == recipe.data.train.use.options);
  CHECK(frozen_recipe(second) == frozen_recipe(recipe));
  CHECK_THAT(report_of(kSmallRecipe, {"environment.WHERE=3"}),
             contains_text("/environment/WHERE: wrong type"));
}

TEST_CASE("a variable in the name of a run leaves no fingerprint", "[recipe]") {
  const ScratchFolder folder;
  const std::string path = folder.write("recipe.json", kSmallRecipe).string();
  const auto environment = [](const std::string&) { return std::optional<std::string>("here"); };
  const Recipe recipe = load_recipe(
      {.path = path, .sets = {"name=${ENV:WHERE}"}, .environment = environment}, FakeCatalog());
  CHECK(recipe.name == "here");
  const std::string again = folder.write("again.json", frozen_recipe(recipe)).string();
  const Recipe second = load_recipe({.path = again, .environment = environment}, FakeCatalog());
  CHECK(frozen_recipe(second) == frozen_recipe(recipe));
}

TEST_CASE("a draft lists the components and plugins that are named", "[recipe]") {
  const ScratchFolder folder;
  const std::string path = folder.write("recipe.json", kFullRecipe).string();
  const RecipeDraft draft = read_recipe({.path = path, .sets = {"sinks=[{\"type\": \"jsonl\"}]"}});
  CHECK(draft.file() == path);
  CHECK(draft.problems().empty());
  CHECK(draft.plugins().size() == 3);
  std::string text;
  for (const NeededComponent& component : draft.components()) {
    text += component.kind + ":" + component.name + " " + component.pointer + "\n";
  }
  CHECK(text ==
        "model:llama /models/policy\n"
        "dataset:text /data/train\n"
        ":byte /data/train/options/tokenizer\n"
        "dataset:text /data/eval/kjv\n"
        "loss:cross_entropy /losses/0\n"
        "loss:com.example.mse/mse /losses/1\n"
        "optimizer:adamw /optimizer\n"
        "optimizer:sgd /optimizer/groups/1\n"
        "lr_scheduler:cosine /lr_scheduler\n"
        "hook:early_stop /hooks/0\n"
        "hook:event_trace /hooks/1\n"
        "metric_sink:jsonl /sinks/0\n");
}

TEST_CASE("problems of the first phase wait for those of the second", "[recipe]") {
  const ScratchFolder folder;
  const std::string path = folder.write("recipe.json", kSmallRecipe).string();
  RecipeDraft draft = read_recipe({.path = path, .sets = {"sede=1", "model.options.dim=0"}});
  CHECK(draft.problems().size() == 1);
  try {
    (void)finish_recipe(std::move(draft), FakeCatalog());
    FAIL("no error");
  } catch (const RecipeErrors& errors) {
    CHECK(errors.problems().size() == 2);
    CHECK(errors.id() == "recipe.invalid");
  }
}

TEST_CASE("a recipe of countless wrong entries is refused with the first of them", "[recipe]") {
  const auto list_of = [](const std::string& entry) {
    std::string text = "[" + entry;
    for (int i = 1; i < 60'000; ++i) {
      text += ", " + entry;
    }
    return text + "]";
  };
  const std::string is_cut = "\n... and at least 50 more\nat least 100 errors in ";
  CHECK_THAT(report_of(kSmallRecipe, {"plugins.need=" + list_of("\"!\"")}),
             contains_text("/plugins/need/49: ") && contains_text(is_cut));
  CHECK_THAT(
      report_of(kSmallRecipe, {"optimizer.groups=" + list_of("{\"match\": \"*\", \"x\": 1}")}),
      contains_text("/optimizer/groups/49/x: ") && contains_text(is_cut));
  CHECK_THAT(report_of(kSmallRecipe, {"hooks=" + list_of("{\"type\": \"none\"}")}),
             contains_text("/hooks/49/type: ") && contains_text(is_cut));
  CHECK_THAT(report_of(kSmallRecipe, {"name=\"${ENV:NOPE}\"", "hooks=" + list_of("\"${\"")}),
             contains_text("/hooks/49: ") && contains_text("at least 100 errors in "));
}

TEST_CASE("threads that the recipe leaves open are chosen and frozen", "[recipe]") {
  const ScratchFolder folder;
  const std::string path = folder.write("recipe.json", kSmallRecipe).string();
  const Recipe recipe = load_recipe({.path = path}, FakeCatalog());
  CHECK(recipe.compute_threads >= 1);
  CHECK(json::parse(frozen_recipe(recipe))["threads"]["compute"] == recipe.compute_threads);
  CHECK(load_recipe({.path = path, .sets = {"threads.compute=3"}, .compute_threads = 5},
                    FakeCatalog())
            .compute_threads == 3);
  CHECK(load_recipe({.path = path, .compute_threads = 5}, FakeCatalog()).compute_threads == 5);
}

TEST_CASE("a draft has the trust file before any plugin is loaded", "[recipe]") {
  const ScratchFolder folder;
  const auto file = folder.write("recipe.json", kSmallRecipe);
  const auto trust_of = [&file](const std::string& value) {
    return read_recipe({.path = file.string(), .sets = {"plugins.trust=" + value}}).trust();
  };
  const auto written = folder.write(
      "written.json", R"({"plugins": {"trust": "keys"}, )" + std::string(kSmallRecipe).substr(1));
  CHECK(read_recipe({.path = written.string()}).trust() == (folder.path() / "keys").string());
  CHECK(trust_of("keys") == (std::filesystem::current_path() / "keys").string());
  CHECK(trust_of("/etc/keys") == "/etc/keys");
  CHECK(trust_of("null").empty());
  CHECK(trust_of("7").empty());  // reported by finish_recipe()
  CHECK(load_text(folder, kSmallRecipe, {"plugins.lock=null"}).lock == LockUse::kIgnore);
}

TEST_CASE("needs of plugins have a form", "[recipe]") {
  for (const char* const bad : {"", ">= 1", "a > 1", "a >= x", "a b", "a >= 1.2.3.4"}) {
    INFO(bad);
    CHECK_THAT(report_of(kSmallRecipe, {"plugins.need=[\"" + std::string(bad) + "\"]"}),
               contains_text("/plugins/need/0: not of the form asked for [recipe.bad_value]"));
  }
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder, kSmallRecipe, {"plugins.need=[\"a-b.c>=2\"]"});
  CHECK(recipe.needs.at(0).id == "a-b.c");
  CHECK(recipe.needs.at(0).version == "2");
  CHECK(recipe.needs.at(0).place.text() == "--set #1");
  CHECK(recipe.needs.at(0).pointer == "/plugins/need/0");
}

TEST_CASE("keys of other trainers point to the keys that set the same thing", "[recipe]") {
  const auto report = [](const std::string& key) { return report_of(kSmallRecipe, {key}); };
  CHECK_THAT(report("train.max_steps=5"),
             contains_text("what other trainers call max_steps is \"train.steps\""));
  CHECK_THAT(report("train.bf16=true"), contains_text("\"train.precision\": \"bf16_autocast\""));
  CHECK_THAT(report("per_device_train_batch_size=8"), contains_text("is \"data.batch_size\""));
  CHECK_THAT(report("optimizer.options.learning_rate=0.1"),
             contains_text("is \"optimizer.options.lr\""));
  CHECK_THAT(report("device=gpu"), contains_text("auto, cpu, cuda, cuda:N"));
}

}  // namespace tenon
