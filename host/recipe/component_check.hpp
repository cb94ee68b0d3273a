// SPDX-License-Identifier: Apache-2.0
//
// The components that a recipe names: looked up in the catalog, their options checked against
// their own schemas and completed, components inside options likewise, references resolved.

#pragma once

#include "host/recipe/component_catalog.hpp"
#include "host/recipe/place.hpp"
#include "host/recipe/problem.hpp"
#include "host/recipe/recipe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A reference inside options, by the pointers of the {"ref": ...} and of what it means.
struct ComponentRef {
  std::string kind;
  std::string pointer;
  std::string target;
};

// A group of the optimizer: {"match", "type"?, and options that differ}.
struct CheckedGroup {
  ComponentUse use;
  std::unique_ptr<nlohmann::json> frozen;  // the options to write beside match and type

  CheckedGroup();
  CheckedGroup(CheckedGroup&&) noexcept;
  CheckedGroup& operator=(CheckedGroup&&) noexcept;
  CheckedGroup(const CheckedGroup&) = delete;
  CheckedGroup& operator=(const CheckedGroup&) = delete;
  ~CheckedGroup();
};

class ComponentChecker {
 public:
  // Relative paths are taken from `folder`, those of a --set from the current folder. Problems are
  // added to `problems`; both are borrowed for the life of this object, and so is `catalog`.
  ComponentChecker(const ComponentCatalog& catalog,
                   std::filesystem::path folder,
                   PlaceMap& places,
                   std::vector<Problem>& problems);
  ~ComponentChecker();
  ComponentChecker(const ComponentChecker&) = delete;
  ComponentChecker& operator=(const ComponentChecker&) = delete;
  ComponentChecker(ComponentChecker&&) = delete;
  ComponentChecker& operator=(ComponentChecker&&) = delete;

  // The component {"type", "options", ...} at `pointer`. Completes `node`: its "options" get their
  // defaults and absolute paths. What is malformed in the node itself has been reported by the
  // host's schema and is passed over.
  //
  // Errors   plugin.bad_schema; what the catalog throws
  ComponentUse check(const std::string& kind, nlohmann::json& node, const std::string& pointer);

  // A group of the optimizer `base`, whose node is complete.
  CheckedGroup check_group(const nlohmann::json& group,
                           const std::string& pointer,
                           const ComponentUse& base,
                           const nlohmann::json& base_node);

  // Judges all references seen by check(): each must lead to a component of its kind that was seen
  // too, and none may come back to itself. Call it last.
  void check_refs();

  const std::vector<ComponentRef>& refs() const { return refs_; }

  // Makes the strings that `schema` marks as paths absolute.
  void make_paths_absolute(nlohmann::json& value,
                           const nlohmann::json& schema,
                           const std::string& pointer);

 private:
  struct OptionSchema;

  std::optional<CatalogEntry> look_up(const std::string& kind,
                                      const std::string& name,
                                      const std::string& pointer);
  void unknown_type(const std::string& kind, const std::string& name, const std::string& pointer);
  const OptionSchema& schema_of(const std::string& kind,
                                const std::string& type,
                                const CatalogEntry& entry);
  void check_options(const OptionSchema& schema,
                     nlohmann::json& options,
                     const std::string& pointer,
                     ComponentUse& use);
  ComponentUse check_nested(const std::string& kind,
                            nlohmann::json& node,
                            const std::string& pointer);
  void make_absolute(nlohmann::json& text, const std::string& pointer);
  bool comes_back(const ComponentRef& ref) const;

  const ComponentCatalog& catalog_;
  const std::filesystem::path folder_;
  PlaceMap& places_;
  std::vector<Problem>& problems_;
  std::map<std::string, std::unique_ptr<OptionSchema>> schemas_;
  std::map<std::string, std::string> kinds_;  // of the components seen, by pointer
  std::vector<ComponentRef> refs_;
};

}  // namespace tenon
