// SPDX-License-Identifier: Apache-2.0
//
// A component that a recipe names. Its options stay JSON, because only the component understands
// them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon {

// A component to create, or a reference to a component in another place of the recipe.
struct ComponentUse {
  std::string kind = {};       // "dataset"
  std::string type = {};       // as written: "text" or "plugin-id/text"; "" for a reference
  std::string plugin_id = {};  // plugin that offers the type; "" for a reference
  std::string options = {};    // a JSON object: defaults filled in, paths absolute
  std::string pointer = {};    // JSON pointer in the recipe as written: "/data/train", "/loss"
  std::string place = {};      // the same for messages: "recipes/a.json:12", "--set #2"

  // Components inside the options, in the order of `options`. `option` is a JSON pointer into the
  // options: "/tokenizer".
  struct Nested;
  std::vector<Nested> nested;

  // The `pointer` of the referenced component; "" if this is no reference. The target is never a
  // reference, and references never form a cycle.
  std::string ref = {};
};

struct ComponentUse::Nested {
  std::string option;
  ComponentUse use;
};

using ComponentVisit = std::function<void(const ComponentUse&)>;
using ComponentFill = std::function<void(ComponentUse&)>;

// Maps the name that a component uses to MODEL.OUTPUT or a field of the batch.
using InputMap = std::map<std::string, std::string>;

}  // namespace tenon
