// SPDX-License-Identifier: Apache-2.0
#include "tests/host/recipe/fake_catalog.hpp"

#include "host/recipe/recipe_loader.hpp"

namespace tenon {

const char* const kSmallRecipe = R"({
  "model": {"type": "llama"},
  "data": {
    "batch_size": 4,
    "train": {"type": "text", "options": {"path": "kjv.txt", "tokenizer": {"type": "byte"}}}
  },
  "loss": {"type": "cross_entropy"},
  "optimizer": {"type": "adamw"},
  "train": {"steps": 3}
})";

FakeCatalog::FakeCatalog() {
  add("model", "llama", {"org.tenon.llama", "build/plugins/llama.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {
      "dim": {"type": "integer", "minimum": 1, "default": 128, "description": "width"},
      "heads": {"type": "integer", "minimum": 1, "maximum": 64, "default": 4},
      "dropout": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.0},
      "activation": {"enum": ["swiglu", "gelu", "relu"], "default": "swiglu"},
      "tied": {"type": "boolean", "default": true}}})"});
  add("model", "mlp", {"org.tenon.mlp", "build/plugins/mlp.so", R"({
    "type": "object", "additionalProperties": false, "required": ["sizes"],
    "properties": {
      "sizes": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2,
                "description": "widths from input to output"}}})"});
  add("dataset", "text", {"org.tenon.text", "build/plugins/text.so", R"({
    "type": "object", "additionalProperties": false, "required": ["path", "tokenizer"],
    "properties": {
      "path": {"type": "string", "minLength": 1, "x-tenon-path": true},
      "more": {"type": "array", "items": {"type": "string", "x-tenon-path": true}, "default": []},
      "tokenizer": {"type": "object", "x-tenon-component": "tokenizer"},
      "range": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1},
                "minItems": 2, "maxItems": 2, "default": [0, 1]}}})"});
  add("dataset", "numbers", {"org.tenon.numbers", "build/plugins/numbers.so", ""});
  add("tokenizer", "byte", {"org.tenon.byte", "build/plugins/byte.so", ""});
  add("tokenizer", "bpe", {"org.tenon.bpe", "build/plugins/bpe.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {
      "merges": {"type": "string", "x-tenon-path": true, "default": "merges.txt"},
      "fallback": {"type": ["object", "null"], "x-tenon-component": "tokenizer",
                   "default": {"type": "byte"}}}})"});
  add("loss", "cross_entropy", {"org.tenon.losses", "build/plugins/losses.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {"ignore_index": {"type": "integer", "default": -100}}})"});
  add("loss", "mse", {"org.tenon.losses", "build/plugins/losses.so", ""});
  add("loss", "mse", {"com.example.mse", "/opt/plugins/mse.so", ""});
  add("optimizer", "adamw", {"org.tenon.adamw", "build/plugins/adamw.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {
      "lr": {"type": "number", "exclusiveMinimum": 0, "default": 0.001},
      "betas": {"type": "array", "items": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                "minItems": 2, "maxItems": 2, "default": [0.9, 0.999]},
      "weight_decay": {"type": "number", "minimum": 0, "default": 0.01}}})"});
  add("optimizer", "sgd", {"org.tenon.sgd", "build/plugins/sgd.so", R"({
    "type": "object", "additionalProperties": false, "required": ["lr"],
    "properties": {
      "lr": {"type": "number", "exclusiveMinimum": 0},
      "momentum": {"type": "number", "minimum": 0, "default": 0.0}}})"});
  add("lr_scheduler", "cosine", {"org.tenon.cosine", "build/plugins/cosine.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {"warmup_steps": {"type": "integer", "minimum": 0, "default": 0}}})"});
  add("hook", "early_stop", {"org.tenon.early_stop", "build/plugins/early_stop.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {
      "patience": {"type": "integer", "minimum": 1, "default": 3},
      "metric": {"type": "string", "pattern": "^[a-z/_]+$", "default": "eval/loss"}}})"});
  add("hook", "event_trace", {"org.tenon.event_trace", "build/plugins/event_trace.so", R"({
    "type": "object", "additionalProperties": false, "required": ["path"],
    "properties": {"path": {"type": "string", "x-tenon-path": true}}})"});
  add("hook", "broken", {"com.example.broken", "/opt/plugins/broken.so", R"({"type": 5})"});
  add("feature", "hash", {"org.tenon.hash", "build/plugins/hash.so", R"({
    "type": "object", "additionalProperties": false,
    "properties": {"function": {"type": "string", "enum": ["farm", "murmur64"], "default": "farm"}}})"});
  add("feature", "mod", {"org.tenon.mod", "build/plugins/mod.so", R"({
    "type": "object", "additionalProperties": false, "required": ["buckets"],
    "properties": {"buckets": {"type": "integer", "minimum": 1}}})"});
  add("metric_sink", "jsonl", {"org.tenon.jsonl", "build/plugins/jsonl.so", ""});
  add("storage", "s3", {"org.tenon.s3", "build/plugins/s3.so", R"({
    "type": "object", "additionalProperties": false, "required": ["uri"],
    "properties": {"uri": {"type": "string"}, "attempts": {"type": "integer", "default": 8}}})"});
}

void FakeCatalog::add(const std::string& kind, const std::string& type, const CatalogEntry& entry) {
  offers_[kind][type].push_back(entry);
}

std::vector<CatalogEntry> FakeCatalog::find(const std::string& kind,
                                            const std::string& name) const {
  const std::size_t slash = name.rfind('/');
  const std::string type = slash == std::string::npos ? name : name.substr(slash + 1);
  const auto types = offers_.find(kind);
  if (types == offers_.end() || types->second.count(type) == 0) {
    return {};
  }
  std::vector<CatalogEntry> found;
  for (const CatalogEntry& entry : types->second.at(type)) {
    if (slash == std::string::npos || entry.plugin_id == name.substr(0, slash)) {
      found.push_back(entry);
    }
  }
  return found;
}

std::vector<std::string> FakeCatalog::types_of(const std::string& kind) const {
  std::vector<std::string> types;
  if (const auto known = offers_.find(kind); known != offers_.end()) {
    for (const auto& [type, entries] : known->second) {
      types.push_back(type);
    }
  }
  return types;
}

std::vector<std::string> FakeCatalog::kinds() const {
  std::vector<std::string> names;
  for (const auto& [kind, types] : offers_) {
    names.push_back(kind);
  }
  return names;
}

Recipe load_text(const ScratchFolder& folder,
                 const std::string& text,
                 const std::vector<std::string>& sets) {
  const std::string path = folder.write("recipe.json", text).string();
  return load_recipe({.path = path, .sets = sets, .compute_threads = 1}, FakeCatalog());
}

std::string report_of(const std::string& text, const std::vector<std::string>& sets) {
  const ScratchFolder folder;
  try {
    (void)load_text(folder, text, sets);
  } catch (const RecipeErrors& errors) {
    std::string report = errors.report();
    const std::string prefix = folder.path().string() + "/";
    for (std::size_t at = report.find(prefix); at != std::string::npos; at = report.find(prefix)) {
      report.erase(at, prefix.size());
    }
    return report;
  }
  return "no error";
}

}  // namespace tenon
