// SPDX-License-Identifier: Apache-2.0
//
// The sections "model", "models", "loss", "metrics" and "optimizer" of a recipe.
#pragma once

#include "host/recipe/component_use.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/recipe/resume_rule.hpp"

#include <string>
#include <vector>

namespace tenon {

inline constexpr char kComponentNamePattern[] = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$";
inline constexpr char kComponentNameDoc[] =
    "name, in letters, digits, '_', '.' and '-'; the type if absent";
inline constexpr char kInputsDoc[] =
    "MODEL.OUTPUT or batch field for each input whose own name does not match";

// Parameters that a component computes from others: adapters, quantized weights.
struct ParametrizationUse {
  std::vector<std::string> match;  // name patterns of parameters
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.doc("a parametrization of some parameters");
    s.key("match", &ParametrizationUse::match)
        .or_one()
        .non_empty()
        .min_items(1)
        .required()
        .doc("name patterns of parameters; '*' matches any text, '?' any character");
    s.component("parametrization", &ParametrizationUse::use);
  }
};

// kStored: outputs are computed once, before training, and kept in files.
enum class ModelOutputs { kComputed, kStored };

// A model of the run. Exactly one is trained; the others only run forward.
struct ModelUse {
  std::string name = "main";
  InputMap inputs;
  std::vector<std::string> frozen;                   // name patterns of parameters
  std::vector<ParametrizationUse> parametrizations;  // the first that matches a name applies
  std::vector<LoadRecipe> load;                      // of a model that is not trained
  std::string parameters_of;                         // model that it shares them with; or ""
  bool is_trained = true;
  ModelOutputs outputs = ModelOutputs::kComputed;  // of a model that is not trained
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.doc("the model");
    s.component("model", &ModelUse::use);
    s.key("inputs", &ModelUse::inputs).non_empty().doc(kInputsDoc);
    s.key("load", &ModelUse::load)
        .absent()
        .doc(
            "what to initialize a model without an optimizer from, in this order; the trained "
            "model uses the recipe's section \"load\"")
        .resume(ChangeClass::kFree, "each resume reads it again, and requires the same values");
    s.key("parameters_of", &ModelUse::parameters_of)
        .non_empty()
        .absent()
        .doc(
            "the trained model, whose frozen parameters this model without an optimizer shares, "
            "without parametrizations: the trained model without its adapters");
    s.choice("outputs",
             &ModelUse::outputs,
             {{"computed", ModelOutputs::kComputed}, {"stored", ModelOutputs::kStored}})
        .absent()
        .doc(
            "of a model without an optimizer; stored: compute its outputs by position once, before "
            "training, keep them in files, and free the model")
        .resume(ChangeClass::kRefused, "the saved fingerprint of the model would differ");
    s.key("frozen", &ModelUse::frozen)
        .non_empty()
        .doc("name patterns of parameters to freeze; '*' matches any text, '?' any character");
    s.key("parametrizations", &ModelUse::parametrizations)
        .doc(
            "components that compute parameters from others, such as adapters; the first that "
            "matches a name wins");
    s.key("optimizer", &ModelUse::is_trained)
        .absent()
        .doc(
            "false: the model is not trained; it runs forward before the trained model, whose "
            "losses and metrics may read its outputs as NAME/OUTPUT");
  }
};

struct LossUse {
  std::string name;
  double weight = 1.0;
  InputMap inputs;
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.doc("a loss");
    s.key("name", &LossUse::name)
        .max_length(100)
        .pattern(kComponentNamePattern)
        .absent()
        .doc(kComponentNameDoc);
    s.component("loss", &LossUse::use);
    s.key("weight", &LossUse::weight)
        .preset("1.0")
        .doc("factor of the loss in the sum of all losses")
        .resume(resume::kObjective);
    s.key("inputs", &LossUse::inputs).non_empty().doc(kInputsDoc);
  }
};

struct MetricUse {
  std::string name;
  InputMap inputs;
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.doc("a metric");
    s.key("name", &MetricUse::name)
        .max_length(100)
        .pattern(kComponentNamePattern)
        .absent()
        .doc(kComponentNameDoc);
    s.component("metric", &MetricUse::use);
    s.key("inputs", &MetricUse::inputs).non_empty().doc(kInputsDoc);
  }
};

// Parameters whose name matches a pattern. `use.options` are complete: the options of the group,
// then the optimizer's (if the type is the same), then the defaults of the type.
struct OptimizerGroup {
  std::string match;
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.key("match", &OptimizerGroup::match)
        .non_empty()
        .required()
        .doc("pattern of parameter names; '*' matches any text, '?' any character")
        .resume(ChangeClass::kRefused, "parameters would move between groups");
    s.inherited("optimizer", &OptimizerGroup::use);
  }
};

struct OptimizerRecipe {
  ComponentUse use;
  std::vector<OptimizerGroup> groups;  // the first that matches a name applies

  template <class Section>
  static void bind(Section& s) {
    s.component("optimizer", &OptimizerRecipe::use);
    s.key("groups", &OptimizerRecipe::groups)
        .doc("parameters with own options; the first group that matches a name wins")
        .resume_below("/*", resume::kUpdates);
  }
};

}  // namespace tenon
