// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/component_check.hpp"

#include "host/json/json_path.hpp"
#include "host/json/json_source.hpp"
#include "host/json/schema_arbiter.hpp"
#include "host/json/schema_check.hpp"
#include "host/json/schema_defaults.hpp"
#include "host/json/schema_visit.hpp"
#include "host/json/schema_words.hpp"
#include "host/text/formatted.hpp"
#include "host/text/nearest_name.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

std::string unqualified(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

const std::string* string_member(const json& object, const char* key) {
  const auto member = object.is_object() ? object.find(key) : object.end();
  return member != object.end() && member->is_string() ? &member->get_ref<const std::string&>()
                                                       : nullptr;
}

}  // namespace

CheckedGroup::CheckedGroup() = default;
CheckedGroup::CheckedGroup(CheckedGroup&&) noexcept = default;
CheckedGroup& CheckedGroup::operator=(CheckedGroup&&) noexcept = default;
CheckedGroup::~CheckedGroup() = default;

struct ComponentChecker::OptionSchema {
  OptionSchema(json parsed, const std::string& whose)
      : schema(std::move(parsed)), arbiter(schema, whose) {}

  json schema;
  SchemaArbiter arbiter;
};

ComponentChecker::ComponentChecker(const ComponentCatalog& catalog,
                                   AbsolutePaths& paths,
                                   PlaceMap& places,
                                   ProblemList& problems)
    : catalog_(catalog), paths_(paths), places_(places), problems_(problems) {}

ComponentChecker::~ComponentChecker() = default;

ComponentUse ComponentChecker::check(const std::string& kind,
                                     json& node,
                                     const std::string& pointer) {
  ComponentUse use{
      .kind = kind, .pointer = pointer, .place = places_.at(pointer).text(), .nested = {}};
  const std::string* const type = string_member(node, "type");
  if (type == nullptr || type->empty()) {
    return use;
  }
  use.type = *type;
  kinds_[pointer] = kind;
  const std::string at = join_pointer(pointer, "options");
  if (!node.contains("options")) {
    node["options"] = json::object();
    places_.set(at, Place{});
  }
  json& options = node["options"];
  const auto entry = look_up(kind, use.type, join_pointer(pointer, "type"));
  if (!entry || !options.is_object()) {
    return use;
  }
  use.plugin_id = entry->plugin_id;
  check_options(schema_of(kind, use.type, *entry), options, at, use);
  return use;
}

CheckedGroup ComponentChecker::check_group(const json& group,
                                           const std::string& pointer,
                                           const ComponentUse& base,
                                           const json& base_node) {
  CheckedGroup result;
  ComponentUse& use = result.use;
  use = {.kind = base.kind, .pointer = pointer, .place = places_.at(pointer).text(), .nested = {}};
  result.frozen = std::make_unique<json>(json::object());
  if (!group.is_object()) {
    return result;
  }
  const std::string* const own_type = string_member(group, "type");
  use.type = own_type != nullptr ? *own_type : base.type;
  if (use.type.empty()) {
    return result;
  }
  // If the group has no own type, an unknown type has been reported for the optimizer.
  std::optional<CatalogEntry> entry;
  if (own_type != nullptr) {
    entry = look_up(base.kind, use.type, join_pointer(pointer, "type"));
  } else if (!base.options.empty()) {  // the type of the optimizer is known
    entry = catalog_.find(base.kind, use.type).at(0);
  }
  if (!entry) {
    return result;
  }
  use.plugin_id = entry->plugin_id;
  kinds_[pointer] = base.kind;
  const bool is_same_type = !base.options.empty() && use.plugin_id == base.plugin_id &&
                            unqualified(use.type) == unqualified(base.type);
  json own = group;
  own.erase("match");
  own.erase("type");
  json merged = own;
  if (is_same_type) {
    merged = base_node.at("options");
    merged.update(own);
  }
  ProblemList found;
  std::swap(found, problems_);
  check_options(schema_of(base.kind, use.type, *entry), merged, pointer, use);
  std::swap(found, problems_);
  const bool is_base_good = std::ranges::none_of(problems_.kept(), [&base](const Problem& problem) {
    return is_at_or_below(problem.pointer, base.pointer + "/options");
  });
  for (const Problem& problem : found.kept()) {
    // Options that the group inherits were checked with the optimizer itself.
    const auto tokens = split_pointer(std::string_view(problem.pointer).substr(pointer.size()));
    const bool is_own = tokens && (tokens->empty() ? is_base_good : own.contains(tokens->front()));
    if (!is_same_type || is_own || found.is_full()) {
      problems_.push_back(problem);
    }
  }
  for (const auto& [key, value] : merged.items()) {
    if (key != "match" && key != "type" && (!is_same_type || own.contains(key))) {
      (*result.frozen)[key] = value;
    }
  }
  return result;
}

std::optional<CatalogEntry> ComponentChecker::look_up(const std::string& kind,
                                                      const std::string& name,
                                                      const std::string& pointer) {
  std::vector<CatalogEntry> offers = catalog_.find(kind, name);
  if (offers.empty()) {
    unknown_type(kind, name, pointer);
    return std::nullopt;
  }
  if (offers.size() == 1) {
    return std::move(offers.front());
  }
  std::string found = brief_value(name) + " in ";
  std::string choices;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const std::string_view joint = i == 0 ? "" : i + 1 == offers.size() ? " and " : ", ";
    found.append(joint).append(offers[i].plugin_id + " (" + offers[i].file + ")");
    choices.append(i == 0 ? "" : " or ").append("\"" + offers[i].plugin_id + "/" + name + "\"");
  }
  problems_.push_back({.id = "recipe.ambiguous_type",
                       .place = places_.at(pointer),
                       .pointer = pointer,
                       .what = formatted("{} plugins offer this {}", offers.size(), kind),
                       .found = found,
                       .note = "write " + choices});
  return std::nullopt;
}

void ComponentChecker::unknown_type(const std::string& kind,
                                    const std::string& name,
                                    const std::string& pointer) {
  const std::vector<std::string> types = catalog_.types_of(kind);
  std::string hint = did_you_mean(unqualified(name), types);
  for (const std::string& other : catalog_.kinds()) {
    const std::vector<std::string> others = catalog_.types_of(other);
    if (hint.empty() && std::ranges::find(others, unqualified(name)) != others.end()) {
      hint = "there is a " + other + " with that name";
    }
  }
  problems_.push_back({.id = "recipe.unknown_type",
                       .place = places_.at(pointer),
                       .pointer = pointer,
                       .what = "unknown type of " + kind,
                       .expected = types.empty() ? "a plugin that offers one, but none does"
                                                 : "one of: " + name_list(types),
                       .found = brief_value(name),
                       .hint = std::move(hint),
                       .note = "plugins were searched in: " + catalog_.searched()});
}

const ComponentChecker::OptionSchema& ComponentChecker::schema_of(const std::string& kind,
                                                                  const std::string& type,
                                                                  const CatalogEntry& entry) {
  const std::string whose = "the " + kind + " \"" + unqualified(type) + "\" of " + entry.plugin_id +
                            " (" + entry.file + ")";
  std::unique_ptr<OptionSchema>& known = schemas_[whose];
  if (known == nullptr) {
    json schema = {{"type", "object"}, {"additionalProperties", false}};
    if (!entry.schema.empty()) {
      try {
        schema = parse_json(entry.schema, "schema");
      } catch (const Error& error) {
        throw Error("plugin.bad_schema",
                    "the option schema of " + whose + " is not a JSON Schema: " + error.message() +
                        "\nThis is an error of the plugin; report it to its author");
      }
    }
    known = std::make_unique<OptionSchema>(std::move(schema), whose);
  }
  return *known;
}

void ComponentChecker::check_options(const OptionSchema& schema,
                                     json& options,
                                     const std::string& pointer,
                                     ComponentUse& use) {
  const std::size_t num_before = problems_.size();
  check_schema(options, schema.schema, pointer, places_, problems_);
  apply_defaults(options, schema.schema, pointer, places_);
  if (problems_.size() == num_before) {
    schema.arbiter.check(options, pointer, places_, problems_);
  }
  visit_schema(
      options, schema.schema, pointer, [&](json& value, const json& rules, const std::string& at) {
        const std::string* const kind = string_member(rules, "x-tenon-component");
        if (kind == nullptr) {
          return true;
        }
        if (value.is_object()) {
          use.nested.push_back(
              {.option = at.substr(pointer.size()), .use = check_nested(*kind, value, at)});
        }
        return false;
      });
  paths_.make_absolute(options, schema.schema, pointer);
  use.options = options.dump();
}

ComponentUse ComponentChecker::check_nested(const std::string& kind,
                                            json& node,
                                            const std::string& pointer) {
  const std::string* const ref = string_member(node, "ref");
  if (ref == nullptr) {
    return check(kind, node, pointer);
  }
  refs_.push_back({.kind = kind, .pointer = pointer, .target = *ref});
  return {.kind = kind,
          .pointer = pointer,
          .place = places_.at(pointer).text(),
          .nested = {},
          .ref = *ref};
}

void ComponentChecker::check_refs() {
  for (const ComponentRef& ref : refs_) {
    if (problems_.is_full()) {
      return;
    }
    const auto target = kinds_.find(ref.target);
    std::string what;
    std::string note;
    if (std::ranges::find(refs_, ref.target, &ComponentRef::pointer) != refs_.end()) {
      what = "refers to another reference";
      note = "point to the component itself";
    } else if (target == kinds_.end()) {
      what = "there is no component at this pointer";
      note = "use the JSON pointer of a component in this recipe, as the recipe writes it";
    } else if (target->second != ref.kind) {
      what = "refers to a " + target->second + " where a " + ref.kind + " is needed";
    } else if (comes_back(ref)) {
      what = "circular reference: the other component needs this one";
      note = "break the cycle";
    } else {
      continue;
    }
    std::vector<std::string> candidates;
    for (const auto& [pointer, kind] : kinds_) {
      if (kind == ref.kind && !is_at_or_below(ref.pointer, pointer)) {
        candidates.push_back(pointer);
      }
    }
    const std::string at = join_pointer(ref.pointer, "ref");
    problems_.push_back({.id = "recipe.bad_ref",
                         .place = places_.at(at),
                         .pointer = at,
                         .what = std::move(what),
                         .expected = candidates.empty() ? "" : "one of: " + name_list(candidates),
                         .found = brief_value(ref.target),
                         .note = std::move(note)});
  }
}

// Creating a component creates all components inside it and all components that they refer to. A
// reference is circular if this chain leads to a component that contains the reference.
bool ComponentChecker::comes_back(const ComponentRef& ref) const {
  std::vector<std::string> to_visit = {ref.target};
  std::set<std::string> visited;
  while (!to_visit.empty()) {
    const std::string pointer = std::move(to_visit.back());
    to_visit.pop_back();
    if (is_at_or_below(ref.pointer, pointer)) {
      return true;
    }
    for (const ComponentRef& other : refs_) {
      if (is_at_or_below(other.pointer, pointer) && visited.insert(other.target).second) {
        to_visit.push_back(other.target);
      }
    }
  }
  return false;
}

}  // namespace tenon
