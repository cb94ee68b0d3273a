// SPDX-License-Identifier: Apache-2.0
//
// No text may crash the reader: recipes mutated by bytes and by values, and --set of all sorts, end
// in a recipe or in an Error of the catalogue. A recipe that is accepted freezes to a fixed point.
#include "host/error/catalogue.hpp"
#include "host/recipe/json_path.hpp"
#include "host/recipe/recipe_loader.hpp"

#include <nlohmann/json.hpp>

#include <random>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kSeedRecipe[] = R"({
  // every kind of value, of component and of list
  "name": "fuzz", "seed": 7, "plugins": {"need": ["a.b >= 1.0"]},
  "model": {"type": "llama", "options": {"dim": 64, "dropout": 0.5, "activation": "gelu"}},
  "data": {"batch_size": 4,
           "train": {"type": "text", "options": {"path": "${ENV:HERE}/a", "more": ["b", "c"],
                                                 "tokenizer": {"type": "bpe"}}},
           "eval": {"e": {"type": "text", "options": {
             "path": "d", "tokenizer": {"ref": "/data/train/options/tokenizer"}}}}},
  "losses": [{"type": "cross_entropy"}, {"type": "com.example.mse/mse", "weight": 2}],
  "optimizer": {"type": "adamw", "options": {"betas": [0.9, 0.95]},
                "groups": [{"match": "*.b", "lr": 1e-3}, {"match": "e*", "type": "sgd", "lr": 1}]},
  "lr_scheduler": {"type": "cosine"}, "hooks": [{"type": "early_stop"}],
  "train": {"steps": 3, "global_batch_size": 8, "clip_grad_norm": 1.0},
  "eval": {"every_steps": 2, "batches": null}
})";

class Fuzzer {
 public:
  explicit Fuzzer(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  std::string mutated_text(std::string text) {
    constexpr std::string_view kBytes = "{}[]:,\"\\/*$-+.eE0123456789 \n\ttfn\xff\xc3\x00";
    for (std::size_t count = 1 + below(4); count > 0; --count) {
      const std::size_t at = below(text.size());
      const char byte = kBytes[below(kBytes.size())];
      switch (below(4)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
      if (text.empty()) {
        return text;
      }
    }
    return text;
  }

  json value() {
    static const json values = json::parse(
        R"([null, true, false, 0, 1, -1, 3, 8, 1.5, 1e300, -0.0, 9223372036854775807,
            18446744073709551615, "", "text", "llama", "mse", "adamw", "sgd", "byte", "bpe",
            "numbers", "a/b", "${ENV:HERE}", "${ENV:NOT}", "${", "$${", "/model", [], {}, [1, 2],
            [[]], {"type": "text"}, {"type": "byte"}, {"ref": "/data/train/options/tokenizer"},
            {"ref": "/model"}, {"ref": ""}, {"type": 3}, {"match": "x"}, {"match": "x", "type": "sgd"},
            {"type": "numbers", "options": {}}, {"type": "numbers", "options": []}, "1e3", 1e3])");
    return values[below(values.size())];
  }

  // Changes, adds or removes one value somewhere.
  void mutate(json& root) {
    json* at = &root;
    while (at->is_structured() && !at->empty() && below(5) != 0) {
      at = &*std::next(at->begin(), static_cast<std::ptrdiff_t>(below(at->size())));
    }
    static const std::vector<std::string> keys = {
        "type",   "options", "model",  "models",        "loss", "losses",    "steps",
        "ref",    "x",       "groups", "match",         "eval", "tokenizer", "name",
        "tokens", "mix",     "weight", "when_one_ends", "",     "a/b~c",     "total_steps"};
    if (at->is_object() && below(2) == 0) {
      (*at)[keys[below(keys.size())]] = value();
    } else if (at->is_array() && below(2) == 0) {
      at->push_back(value());
    } else if (at->is_structured() && !at->empty() && below(3) == 0) {
      at->erase(std::next(at->begin(), static_cast<std::ptrdiff_t>(below(at->size()))));
    } else {
      *at = value();
    }
  }

  std::string set() {
    static const std::vector<std::string> parts = {
        "train",  "steps", "model", "models", "main", "options", "dim",       "hooks",
        "0",      "1",     "2",     "[0]",    "[9]",  ".",       "..",        "/",
        "losses", "type",  "data",  "eval",   "=",    "~",       "optimizer", "groups"};
    std::string text;
    for (std::size_t count = below(5); count > 0; --count) {
      text += parts[below(parts.size())] + (below(3) != 0 ? "." : "");
    }
    if (text.ends_with('.')) {
      text.pop_back();
    }
    return text + (below(20) != 0 ? "=" : "") + value().dump();
  }

 private:
  std::mt19937 random_;
};

std::optional<std::string> test_environment(const std::string& name) {
  return name == "HERE" ? std::optional<std::string>("here") : std::nullopt;
}

// "" where the text is accepted, else the id of the error.
std::string outcome(const ScratchFolder& folder,
                    const std::string& text,
                    const std::vector<std::string>& sets) {
  static const FakeCatalog catalog;
  const auto load = [&](const std::string& content, const std::vector<std::string>& with) {
    const std::string path = folder.write("recipe.json", content).string();
    return load_recipe(
        {.path = path, .sets = with, .compute_threads = 1, .environment = test_environment},
        catalog);
  };
  std::string frozen;
  try {
    frozen = frozen_recipe(load(text, sets));
  } catch (const Error& error) {
    return error.id();
  }
  const std::string again = frozen_recipe(load(frozen, {}));
  if (again != frozen) {
    FAIL("not a fixed point:\n" << text << "\n" << frozen << "\n" << again);
  }
  return "";
}

void check_known(const std::string& id, int i) {
  if (!id.empty() && find_error(id) == nullptr) {
    FAIL("case " << i << " ends in " << id << ", which the catalogue does not have");
  }
}

}  // namespace

TEST_CASE("recipes with changed bytes end in a recipe or an error", "[recipe]") {
  const ScratchFolder folder;
  Fuzzer fuzzer(1);
  int num_accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = outcome(folder, fuzzer.mutated_text(kSeedRecipe), {});
    check_known(id, i);
    num_accepted += id.empty() ? 1 : 0;
  }
  CHECK(num_accepted > 0);  // else the mutations are too coarse to go deep
}

TEST_CASE("recipes with changed values end in a recipe or an error", "[recipe]") {
  const ScratchFolder folder;
  const json seed = json::parse(kSeedRecipe, nullptr, true, true);
  Fuzzer fuzzer(2);
  int num_accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    json recipe = seed;
    for (std::size_t count = 1 + fuzzer.below(3); count > 0; --count) {
      fuzzer.mutate(recipe);
    }
    const std::string id = outcome(folder, recipe.dump(), {});
    check_known(id, i);
    num_accepted += id.empty() ? 1 : 0;
  }
  CHECK(num_accepted > 20);
}

TEST_CASE("assignments of all sorts end in a recipe or an error", "[recipe]") {
  const ScratchFolder folder;
  Fuzzer fuzzer(3);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> sets;
    for (std::size_t count = 1 + fuzzer.below(3); count > 0; --count) {
      sets.push_back(fuzzer.set());
    }
    check_known(outcome(folder, kSeedRecipe, sets), i);
  }
}

}  // namespace tenon
