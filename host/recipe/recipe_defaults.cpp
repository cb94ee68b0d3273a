// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_defaults.hpp"

#include "host/json/json_path.hpp"
#include "host/json/one_or_named.hpp"
#include "host/json/schema_defaults.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

class Completion {
 public:
  Completion(json& root, PlaceMap& places) : root_(root), places_(places) {}

  void name_run(const std::string& path) {
    add("", "name", as_name(std::filesystem::path(path).stem().string()));
  }

  void choose_threads(int compute_threads) {
    if (json* const compute = find_at(root_, "/threads/compute"); is_null(compute)) {
      const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
      *compute = compute_threads > 0 ? compute_threads : cores;
    }
  }

  // A global batch sets the number of microbatches.
  void choose_accumulation() {
    constexpr char kKey[] = "/train/gradient_accumulation";
    json* const accumulation = find_at(root_, kKey);
    if (accumulation == nullptr) {
      return;
    }
    const json* const samples = find_at(root_, "/train/global_batch_size");
    const json* const tokens = find_at(root_, "/train/global_batch_tokens");
    const bool is_given =
        (samples != nullptr && !samples->is_null()) || (tokens != nullptr && !tokens->is_null());
    if (is_given && places_.is_default(kKey)) {
      *accumulation = nullptr;
    } else if (!is_given && accumulation->is_null()) {
      *accumulation = 1;
    }
  }

  void choose_final_evaluation() {
    constexpr char kKey[] = "/eval/at_end";
    if (json* const at_end = find_at(root_, kKey);
        at_end != nullptr && places_.is_default(kKey) && is_null(find_at(root_, "/data/eval"))) {
      *at_end = false;
    }
  }

  void name_components() {
    name_by_type("/loss");
    for (const char* const list : {"/losses", "/metrics"}) {
      for_each_entry(list,
                     [this](const std::string& pointer, std::size_t) { name_by_type(pointer); });
    }
  }

  // The long form of a feature's inputs is a list.
  void list_inputs_of_features() {
    for_each_entry("/features", [this](const std::string& pointer, std::size_t) {
      if (json* const from = find_at(root_, pointer + "/from");
          from != nullptr && from->is_string()) {
        *from = json::array({*from});
      }
    });
  }

  // Removes the keys of a single dataset, and adds those of a mix.
  void complete_mixes() {
    for (const std::string& pointer : datasets()) {
      json* const dataset = find_at(root_, pointer);
      if (dataset == nullptr || !dataset->is_object() || !dataset->contains("mix")) {
        continue;
      }
      if (places_.is_default(pointer + "/options")) {
        dataset->erase("options");
      }
      add(pointer, "when_one_ends", "repeat");
      for_each_entry(pointer + "/mix", [this](const std::string& entry, std::size_t i) {
        if (const json* const type = find_at(root_, entry + "/type");
            type != nullptr && type->is_string()) {
          add(entry, "name", mix_name(type->get<std::string>(), i));
        }
      });
    }
  }

 private:
  // Returns the pointers of all datasets and mixes.
  std::vector<std::string> datasets() const {
    std::vector<std::string> pointers = {"/data/train"};
    for (const std::string list : {"eval", "test"}) {
      const std::string pointer = "/data/" + list;
      const json* const value = find_at(root_, pointer);
      const json& schema = *find_at(recipe_schema(), "/properties/data/properties/" + list);
      if (value == nullptr) {
        continue;
      }
      if (const FormOfObject form = form_of_object(*value, schema); form.is_one) {
        pointers.push_back(pointer);
      } else if (form.one != nullptr) {
        for (const std::string& name : keys_of(*value)) {
          pointers.push_back(join_pointer(pointer, name));
        }
      }
    }
    return pointers;
  }

  static bool is_null(const json* value) { return value != nullptr && value->is_null(); }

  // Adds a key that is not written.
  void add(const std::string& pointer, const char* key, json value) {
    if (json* const object = find_at(root_, pointer);
        object != nullptr && object->is_object() && !object->contains(key)) {
      (*object)[key] = std::move(value);
      places_.set(join_pointer(pointer, key), Place{});
    }
  }

  void name_by_type(const std::string& pointer) {
    if (const json* const type = find_at(root_, pointer + "/type");
        type != nullptr && type->is_string()) {
      add(pointer, "name", default_name(type->get<std::string>()));
    }
  }

  template <class Visit>
  void for_each_entry(const std::string& list, Visit visit) {
    const json* const entries = find_at(root_, list);
    for (std::size_t i = 0; entries != nullptr && entries->is_array() && i < entries->size(); ++i) {
      visit(join_pointer(list, i), i);
    }
  }

  json& root_;
  PlaceMap& places_;
};

}  // namespace

void complete_recipe(json& root, PlaceMap& places, const std::string& path, int compute_threads) {
  apply_defaults(root, recipe_schema(), "", places);
  Completion completion(root, places);
  completion.name_run(path);
  completion.choose_threads(compute_threads);
  completion.choose_accumulation();
  completion.choose_final_evaluation();
  completion.name_components();
  completion.list_inputs_of_features();
  completion.complete_mixes();
}

}  // namespace tenon
