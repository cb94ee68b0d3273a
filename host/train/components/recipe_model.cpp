// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_model.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/text/name_pattern.hpp"

#include <algorithm>
#include <string>

namespace tenon {
namespace {

void map_inputs(ModelGraph& graph, const InputMap& inputs) {
  for (const auto& [name, field] : inputs) {
    const auto value = std::ranges::find_if(graph.values, [&, &wanted = name](const ModelValue& v) {
      return v.maker == kNoIndex && v.name == wanted;
    });
    if (value == graph.values.end()) {
      throw Error("model.unknown_input",
                  std::string("the model reads no field '").append(name) +
                      "', which \"inputs\" maps to '" + field + "'");
    }
    value->source = field;
  }
}

void freeze(ModelGraph& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    bool is_matched = false;
    for (ModelParameter& parameter : graph.parameters) {
      if (matches_pattern(pattern, parameter.name)) {
        ModelParameter& one =
            parameter.same_as == kNoIndex ? parameter : graph.parameters[parameter.same_as];
        one.flags |= TENON_PARAM_FROZEN;
        is_matched = true;
      }
    }
    if (!is_matched) {
      std::string names;
      for (size_t i = 0; i < graph.parameters.size() && i < 4; ++i) {
        names += (i > 0 ? ", " : "") + graph.parameters[i].name;
      }
      throw Error("model.unmatched_frozen",
                  "\"frozen\" of the model: the pattern '" + pattern +
                      "' matches no parameter; the first ones are " + names);
    }
  }
}

}  // namespace

ModelGraph recipe_model(ModelProxy& model, const ModelUse& use) {
  ModelGraph graph = describe_model(model);
  map_inputs(graph, use.inputs);
  freeze(graph, use.frozen);
  return graph;
}

}  // namespace tenon
