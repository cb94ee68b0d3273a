// SPDX-License-Identifier: Apache-2.0
//
// Recipes changed by their printed schema: values of the right type, of the wrong one, and absurd
// ones, in every key that a recipe and the components of the build have. The program refuses them
// or trains them, within bounds of time and memory; a long run ends on SIGTERM.
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"
#include "tests/attack/schema_mutator.hpp"
#include "tests/fuzz/json_mutator.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kPatience{15};  // then it is asked to stop
constexpr std::chrono::seconds kGrace{30};     // and must have ended

json printed_schema(const fs::path& folder) {
  const Ended schema = run_to_end(attacked_host({"--print-schema"}), folder / "schema.json");
  json parsed = json::parse(schema.log, nullptr, /*allow_exceptions=*/false);
  if (schema.status != 0 || !parsed.is_object()) {
    throw std::runtime_error("--print-schema fails: " + schema.log.substr(0, 500));
  }
  return parsed;
}

// What recipes are made from.
struct RecipeSource {
  explicit RecipeSource(const json& schema);

  std::vector<json> seeds;
  SchemaMutator by_schema;
  JsonWords words;  // for changes that follow no schema
};

std::vector<json> seed_recipes() {
  std::vector<json> seeds;
  for (const std::string& text : {small_recipe(),
                                  busy_recipe(),
                                  busy_recipe(kRowsOfTables),
                                  small_language_recipe(),
                                  attacked_recipes().front().text}) {
    seeds.push_back(json::parse(text));
  }
  for (const char* const name : {"iris.json", "features.json", "mixture.json"}) {
    seeds.push_back(json::parse(file_text(source_dir() / "recipes" / name), nullptr, true, true));
  }
  return seeds;
}

RecipeSource::RecipeSource(const json& schema) : seeds(seed_recipes()), by_schema(schema) {
  add_words_of(schema, words);
  sort_words(words);
}

// Mutated, and short if it is left to be.
std::string make_recipe(Attack& attack, const RecipeSource& source) {
  Mutator mutator(attack.below(UINT64_MAX));
  json recipe = source.seeds[mutator.below(source.seeds.size())];
  if (recipe.contains("train") && recipe["train"].contains("steps")) {
    recipe["train"]["steps"] = 2;
  }
  for (std::size_t n = 1 + mutator.below(3); n > 0; --n) {
    if (mutator.one_in(6)) {
      mutate_json(recipe, mutator, source.words);
    } else {
      source.by_schema.mutate(recipe, mutator);
    }
  }
  return json_text(recipe);
}

// True if --plan says that a run needs more than `bytes`: such a recipe asks for a large model.
bool is_planned_larger(const fs::path& recipe, std::uint64_t bytes) {
  const SubprocessResult planned = run_host({"--recipe", recipe.string(), "--plan", "1", "--json"});
  const json plan = json::parse(planned.out, nullptr, /*allow_exceptions=*/false);
  const json::json_pointer sum("/plan/memory/sum");
  return plan.is_object() && plan.contains(sum) &&
         plan[sum].get<double>() > static_cast<double>(bytes);
}

void try_recipe(Attack& attack, const RecipeSource& source) {
  const fs::path folder = attack.folder() / "case";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::create_directory_symlink(source_dir() / "recipes" / "data", folder / "data");
  const fs::path recipe = folder / "recipe.json";
  std::ofstream(recipe, std::ios::binary) << make_recipe(attack, source);
  std::vector<std::string> more = {"--recipe", recipe.string(), "--quiet"};
  switch (attack.below(8)) {
    case 0:
      more = {"--recipe", recipe.string(), "--validate"};
      break;
    case 1:
      more = {"--recipe", recipe.string(), "--plan", "8"};
      break;
    default:
      more.insert(more.end(), {"--run-dir", (folder / "run").string()});
      break;
  }
  Child child(attacked_host(more), folder / "log", {.memory_limit = kMostMemory});
  const bool is_long = !child.ends_within(kPatience);
  if (is_long) {
    ::kill(child.process(), SIGTERM);
  }
  const std::optional<int> status = child.wait(kGrace);
  std::string wrong = bad_ending(status, child.log());
  if (child.peak_bytes() > kMostMemory && is_planned_larger(recipe, kMostMemory)) {
    attack.survived("killed: it grows as --plan says");
    return;
  }
  if (child.peak_bytes() > kMostMemory) {
    wrong = "it takes more than " + std::to_string(kMostMemory >> 20) + " MiB";
  } else if (!status.has_value()) {
    wrong = "it does not end on SIGTERM";
  } else if (status == 128 + SIGKILL) {
    wrong = "it was killed by the system";
  }
  if (!wrong.empty()) {
    attack.found(more[2] + ": " + wrong, folder);
    return;
  }
  const std::string id = *status == 0 || *status == 75 ? "" : " " + error_id_of(child.log());
  attack.survived("status " + std::to_string(*status) + id + (is_long ? ", on SIGTERM" : ""));
}

}  // namespace

void attack_recipes(Attack& attack) {
  const RecipeSource source(printed_schema(attack.folder()));
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    try_recipe(attack, source);
  }
}

}  // namespace tenon
