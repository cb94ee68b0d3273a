// SPDX-License-Identifier: Apache-2.0
//
// A component that a recipe names. Its options stay JSON, which only the component understands.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon {

// A component to create, or a reference to one that is created for another place of the recipe.
struct ComponentUse {
  std::string kind = {};       // "dataset"
  std::string type = {};       // as written: "text" or "plugin-id/text"; "" for a reference
  std::string plugin_id = {};  // of the plugin that offers it; "" for a reference
  std::string options = {};    // a JSON object: defaults filled in, paths absolute
  std::string pointer = {};    // where it stands, in the form written: "/data/train", "/loss"
  std::string place = {};      // the same for people: "recipes/a.json:12", "--set #2"

  // Components inside the options, in the order of `options`. `option` is where: "/tokenizer".
  struct Nested;
  std::vector<Nested> nested;

  // The `pointer` of the component that is meant; "" if this is a component itself. Never a
  // reference to a reference, and never part of a cycle.
  std::string ref = {};
};

struct ComponentUse::Nested {
  std::string option;
  ComponentUse use;
};

using ComponentVisit = std::function<void(const ComponentUse&)>;

// From the name that a component uses to MODEL.OUTPUT or a field of the batch.
using InputMap = std::map<std::string, std::string>;

}  // namespace tenon
