// SPDX-License-Identifier: Apache-2.0
//
// Rules of the keys `model` and `models`.
#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/recipe_rules.hpp"

namespace tenon {
namespace {

using OfRecipe = When<Recipe>;
using OfModel = When<ModelUse>;

// A model that only runs forward.
const Condition<ModelUse> kForwardOnly =
    OfModel::is("optimizer", &ModelUse::is_trained, false, false);

// `models` has entries, and none is trained.
const Condition<Recipe> kAllForwardOnly = {
    [](const Recipe& recipe, const RuleKeys&) {
      return !recipe.further_models.empty() &&
             std::ranges::none_of(recipe.further_models, &ModelUse::is_trained);
    },
    with_key("models", {{"minProperties", 1}, {"additionalProperties", kForwardOnly.schema}})};

const Rule<Recipe> kNotBothForms =
    not_both_forms("model",
                   "models",
                   "is short for one entry of \"models\" named \"main\"",
                   OfRecipe::given("model") && OfRecipe::given("models") && !kAllForwardOnly);
const Rule<Recipe> kOneForm = one_of_two_forms("model", "models");

std::vector<std::string> trained_models(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const ModelUse& model : recipe.further_models) {
    if (model.is_trained) {
      names.push_back(model.name);
    }
  }
  return names;
}

// Requires that models share the parameters of the trained model, which must be known.
std::vector<Violation> shared_with_others(const Recipe& recipe, const RuleKeys& keys) {
  const std::vector<std::string> trained = trained_models(recipe);
  const bool is_short = keys.has("model");
  std::vector<Violation> found;
  if (!is_short && trained.size() != 1) {
    return found;
  }
  const std::string name = is_short ? recipe.model.name : trained.front();
  for (const ModelUse& model : recipe.further_models) {
    if (!model.is_trained && !model.parameters_of.empty() && model.parameters_of != name) {
      found.push_back(
          {.key = join_pointer("/models", model.name) + "/parameters_of",
           .what = "names '" + model.parameters_of + "', expected the trained model '" + name + "'",
           .way_out = "name the trained model, or use \"load\""});
    }
  }
  return found;
}

const RuleTable<Recipe> kModelsRules = {
    kNotBothForms,
    {.keys = {"models/main", "model", "models"},
     .broken = OfRecipe::given("model") && kAllForwardOnly && OfRecipe::given("models/main"),
     .what = "duplicate model",
     .way_out = "\"model\" is short for a model named \"main\""},
    kOneForm,
    {.keys = {"models"},
     .broken = OfRecipe::given("models") &&
               Condition<Recipe>([](const Recipe& recipe,
                                    const RuleKeys&) { return recipe.further_models.empty(); },
                                 with_key("models", {{"maxProperties", 0}})),
     .what = "missing key",
     .way_out = "the model",
     .id = "recipe.missing_key",
     .expected = "a model: {\"type\": ..., \"options\": {...}}"},
    {.keys = {"models"},
     .broken = [](const Recipe& recipe) { return trained_models(recipe).size() > 1; },
     .what = "this release does not have several models with an optimizer yet",
     .way_out =
         "set \"optimizer\": false for each model that only runs forward, such as a reference",
     .id = "recipe.not_available",
     .found = [](const Recipe& recipe,
                 const RuleKeys&) { return name_list(trained_models(recipe)); }},
    {.keys = {"models"},
     .broken = !OfRecipe::given("model") && kAllForwardOnly,
     .what = "no model has an optimizer",
     .way_out = "remove \"optimizer\": false from the model to train"},
    {.keys = {"model/optimizer"},
     .broken = {[](const Recipe& recipe, const RuleKeys&) { return !recipe.model.is_trained; },
                with_key("model", kForwardOnly.schema)},
     .what = "the model of a run without \"models\" is trained",
     .way_out = "remove the key; name models that only run forward in \"models\""},
    {.keys = {"models"}, .id = "model.cannot_share", .find = shared_with_others},
};

const Condition<ModelUse> kStored =
    OfModel::is("outputs", &ModelUse::outputs, ModelOutputs::kStored, "stored");

const RuleTable<ModelUse> kModelRules = {
    {.keys = {"parameters_of"},
     .broken = !kForwardOnly && OfModel::given("parameters_of"),
     .what = "only a model without an optimizer can share parameters",
     .way_out = "remove the key, or set \"optimizer\": false"},
    {.keys = {"load"},
     .broken = !kForwardOnly && OfModel::any_in("load", &ModelUse::load),
     .what = "this release does not have loading by model yet",
     .way_out = "use the recipe's section \"load\" to initialize the trained model from other runs",
     .id = "recipe.not_available",
     .found = [](const ModelUse&, const RuleKeys& keys) { return keys.brief("load"); }},
    {.keys = {"load", "parameters_of"},
     .broken = kForwardOnly && OfModel::given("parameters_of") && OfModel::given("load"),
     .what = "a model with \"parameters_of\" reads those of the trained model",
     .way_out = "remove \"load\" or \"parameters_of\""},
    {.keys = {"parametrizations", "parameters_of"},
     .broken = kForwardOnly && OfModel::given("parameters_of") &&
               OfModel::any_in("parametrizations", &ModelUse::parametrizations),
     .what = "a model with \"parameters_of\" reads those of the trained model",
     .way_out = "remove \"parametrizations\" or \"parameters_of\""},
    {.keys = {"load"},
     .broken = kForwardOnly && !OfModel::given("parameters_of") &&
               !OfModel::any_in("load", &ModelUse::load),
     .what = "missing key",
     .way_out = "a model that is not trained would keep its random initial values",
     .id = "recipe.missing_key",
     .expected = "a list of sources: [{\"from\": \"FOLDER\"}], or parameters_of"},
    {.keys = {"frozen"},
     .broken = kForwardOnly && OfModel::any_in("frozen", &ModelUse::frozen),
     .what = "without an optimizer, all parameters are frozen",
     .way_out = "remove \"frozen\""},
    {.keys = {"outputs", "optimizer"},
     .broken = kStored && !kForwardOnly,
     .what = "only outputs of a model with \"optimizer\": false stay the same",
     .way_out = "remove the key"},
    {.keys = {"outputs", "parameters_of"},
     .broken = kStored && kForwardOnly && OfModel::given("parameters_of"),
     .what = "a model with \"parameters_of\" takes no memory for parameters of its own",
     .way_out = "remove the key"},
    {.keys = {"outputs", "parametrizations"},
     .broken = kStored && kForwardOnly &&
               OfModel::any_in("parametrizations", &ModelUse::parametrizations),
     .what = "outputs of a model with \"parametrizations\" cannot be stored in this release",
     .way_out = "remove the key"},
};

}  // namespace

const RuleTable<Recipe>& models_rules() {
  return kModelsRules;
}

const RuleTable<ModelUse>& model_rules() {
  return kModelRules;
}

}  // namespace tenon
