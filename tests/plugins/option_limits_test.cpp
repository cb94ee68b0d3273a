// SPDX-License-Identifier: Apache-2.0
//
// Every integer option of a first-party plugin has a maximum, so that a typo cannot ask for
// terabytes or for years. Options that size nothing are listed here.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// KIND TYPE OPTION; "*" for any type. None of them determines how much is allocated or computed.
const std::set<std::string>& size_nothing() {
  static const std::set<std::string> kOptions = {
      // Divisors and shares.
      "dataset columnar share.from",
      "dataset columnar share.of",
      "dataset columnar share.to",
      "feature mod buckets",
      "feature ngram buckets",
      // Lengths of windows: a longer one has all of the data.
      "dataset columnar windows.count",
      "dataset criteo_like window_size",
      "dataset movielens window_days",
      // Seeds and labels.
      "dataset criteo_like seed",
      "feature ngram seed",
      "hook text_samples seed",
      "loss * ignore_index",
      "metric * ignore_index",
      // Upper limits by themselves: of lists, samples or memory.
      "feature length max",
      "feature truncate length",
      "metric * k",
      "metric * max_bytes",
      "metric * top_k",
      "hook text_samples top_k",
      // Numbers of steps and evaluations.
      "hook early_stop patience",
      "hook ema every",
      "hook ema start",
      "hook text_samples every_steps",
      "hook spike_guard patience",
      "hook spike_guard warm_up",
      "lr_scheduler * cycles",
      "lr_scheduler * decay_steps",
      "lr_scheduler * every",
      "lr_scheduler * first_steps",
      "lr_scheduler * milestones",
      "lr_scheduler * multiplier",
      "lr_scheduler * schedules.steps",
      "lr_scheduler * timescale",
      "lr_scheduler * total_steps",
      "lr_scheduler * warmup_steps"};
  return kOptions;
}

bool is_integer(const json& schema) {
  const json type = schema.value("type", json());
  return type == "integer" ||
         (type.is_array() && std::find(type.begin(), type.end(), "integer") != type.end());
}

// Adds "KIND TYPE OPTION" of each integer without a maximum below this part of a schema.
void collect(const json& schema, const std::string& option, std::set<std::string>& open) {
  if (schema.is_array()) {
    for (const json& part : schema) {
      collect(part, option, open);
    }
    return;
  }
  if (!schema.is_object()) {
    return;
  }
  const bool is_bounded = schema.contains("maximum") || schema.contains("exclusiveMaximum") ||
                          schema.contains("enum") || schema.contains("const");
  if (is_integer(schema) && !is_bounded) {
    open.insert(option);
  }
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties") {
      for (const auto& [name, inner] : value.items()) {
        collect(inner, option + (option.ends_with(' ') ? "" : ".") + name, open);
      }
    } else {
      collect(value, option, open);
    }
  }
}

std::set<std::string> unbounded_options(const json& schema) {
  std::set<std::string> open;
  for (const auto& [name, definition] : schema.at("definitions").items()) {
    // KIND.PLUGIN.TYPE; definitions of a whole kind have no dot.
    const size_t first = name.find('.');
    if (first != std::string::npos) {
      const std::string type = name.substr(name.rfind('.') + 1);
      collect(definition, name.substr(0, first) + " " + type + " ", open);
    }
  }
  return open;
}

// The entry of size_nothing() for an option, or "".
std::string entry_for(const std::string& option) {
  const size_t first = option.find(' ');
  const size_t second = option.find(' ', first + 1);
  const std::string any = option.substr(0, first) + " *" + option.substr(second);
  for (const std::string& entry : {option, any}) {
    if (size_nothing().count(entry) == 1) {
      return entry;
    }
  }
  return "";
}

json first_party_schema() {
  const ScratchFolder cache;
  SubprocessOptions options;
  options.environment = {{"XDG_CACHE_HOME", cache.path().string()}};
  const SubprocessResult result = run_subprocess(
      {host_program().string(), "--print-schema", "--plugin-dir", plugin_dir().string()}, options);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("an integer option without a maximum is found at any depth", "[plugins]") {
  const json schema = json::parse(R"({"definitions": {"model": {"type": "integer"},
    "model.org.a.net": {"properties": {
      "layers": {"type": "integer", "minimum": 1},
      "width": {"type": "integer", "maximum": 9},
      "rows": {"anyOf": [{"type": "null"}, {"properties": {"n": {"type": ["integer", "null"]}}}]},
      "hidden": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}}})");
  CHECK(unbounded_options(schema) ==
        std::set<std::string>{"model net hidden", "model net layers", "model net rows.n"});
}

TEST_CASE("every integer option that sizes something has a maximum", "[plugins]") {
  std::set<std::string> used;
  for (const std::string& option : unbounded_options(first_party_schema())) {
    INFO(option << " has no maximum; add .max(), or list it in size_nothing() with the reason");
    const std::string entry = entry_for(option);
    CHECK_FALSE(entry.empty());
    used.insert(entry);
  }
  for (const std::string& entry : size_nothing()) {
    INFO("no option needs this entry any more; remove it: " << entry);
    CHECK(used.count(entry) == 1);
  }
}

}  // namespace tenon
